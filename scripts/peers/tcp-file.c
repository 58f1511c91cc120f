// A file by TCP: a connection to each receiver, all at once, nothing between file and socket (sendfile).
//
//     tcp-file send FILE CONGESTION_CONTROL ADDRESS...
//     tcp-file recv FILE
//
// A receiver says READY, and when it has the whole file DONE with the time of the monotonic clock.
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <fcntl.h>
#include <netinet/tcp.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/sendfile.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

enum { PORT = 9100, PIECE = 1 << 20 };

static const char *path, *control;

static void fail(const char *what) {
    perror(what);
    exit(1);
}

static struct sockaddr_in at(const char *address) {
    struct sockaddr_in to = {.sin_family = AF_INET, .sin_port = htons(PORT)};
    if (inet_pton(AF_INET, address, &to.sin_addr) != 1)
        fail(address);
    return to;
}

static void *send_to(void *address) {
    struct sockaddr_in to = at(address);
    struct stat about;
    int file = open(path, O_RDONLY), wire = socket(AF_INET, SOCK_STREAM, 0);
    if (file < 0 || fstat(file, &about))
        fail(path);
    if (setsockopt(wire, IPPROTO_TCP, TCP_CONGESTION, control, strlen(control)))
        fail(control);
    if (connect(wire, (struct sockaddr *)&to, sizeof to))
        fail("connect");
    uint64_t size = about.st_size;
    if (send(wire, &size, sizeof size, MSG_MORE) != sizeof size)
        fail("send");
    off_t sent = 0;
    while (sent < about.st_size)
        if (sendfile(wire, file, &sent, PIECE) <= 0)
            fail("sendfile");
    char whole;
    if (read(wire, &whole, 1) != 1)
        fail("a receiver has not got the whole file");
    return NULL;
}

static int receive(void) {
    struct sockaddr_in here = at("0.0.0.0");
    int on = 1, door = socket(AF_INET, SOCK_STREAM, 0);
    setsockopt(door, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
    if (bind(door, (struct sockaddr *)&here, sizeof here) || listen(door, 1))
        fail("listen");
    puts("READY");
    fflush(stdout);
    int wire = accept(door, NULL, NULL), file = open(path, O_WRONLY | O_CREAT | O_TRUNC, 0644);
    if (wire < 0 || file < 0)
        fail(path);
    uint64_t size, got = 0;
    if (recv(wire, &size, sizeof size, MSG_WAITALL) != sizeof size)
        fail("recv");
    char *piece = malloc(PIECE);
    while (got < size) {
        ssize_t count = read(wire, piece, PIECE);
        if (count <= 0 || write(file, piece, count) != count)
            fail("cut off");
        got += count;
    }
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    printf("DONE %ld.%09ld\n", (long)now.tv_sec, now.tv_nsec);
    return write(wire, "", 1) != 1;
}

int main(int count, char **args) {
    if (count > 2)
        path = args[2];
    if (count == 3 && !strcmp(args[1], "recv"))
        return receive();
    if (count < 5 || strcmp(args[1], "send"))
        return 2;
    control = args[3];
    pthread_t threads[count];
    for (int i = 4; i < count; i++)
        pthread_create(&threads[i], NULL, send_to, args[i]);
    for (int i = 4; i < count; i++)
        pthread_join(threads[i], NULL);
    return 0;
}
