// A file by OpenPGM over UDP, on its public interface.
//
//     pgm-file send FILE ADDRESS [KEY=VALUE...]
//     pgm-file recv FILE ADDRESS [KEY=VALUE...]
//
// ADDRESS is the interface's. PGM tells a sender nothing of who has everything: the first message says how long the
// file is, and the sender stays for repairs until it is stopped. A receiver says READY, and when it has the whole file
// DONE with the time of the monotonic clock. Keys: rate (bytes a second), backoff, repeat and repair (milliseconds:
// before a NAK, until it is confirmed, and until its repair has come).
#define _GNU_SOURCE
#include <fcntl.h>
// Before OpenPGM's header, which has pgm_poll_info only where there is poll.
#include <poll.h>

#include <pgm/pgm.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

// Both ports are one: a socket that only sends binds the multicast port alone, and NAKs come to the other.
enum { PORT = 3055, WINDOW = 60000, SOCKET_BUFFER = 4 << 20, RETRIES = 50 };

// What fills a frame. PGM_MSS says four bytes more, and a message as long as that blocks the one after it for ever.
enum { MESSAGE = 1424 };

static volatile sig_atomic_t stopping;
static int count;
static char **args;

static void stop(int signal_number) {
    (void)signal_number;
    stopping = 1;
}

static double setting(const char *key, double otherwise) {
    for (int i = 4; i < count; i++)
        if (!strncmp(args[i], key, strlen(key)) && args[i][strlen(key)] == '=')
            return atof(args[i] + strlen(key) + 1);
    return otherwise;
}

static void need(bool done, const char *what, pgm_error_t *error) {
    if (done)
        return;
    fprintf(stderr, "%s: %s\n", what, error && error->message ? error->message : "refused");
    exit(1);
}

static void set(pgm_sock_t *socket, int option, int value) {
    need(pgm_setsockopt(socket, IPPROTO_PGM, option, &value, sizeof value), "a setting", NULL);
}

// Waits until there is something to do, as the status of the last call says.
static void wait_for(pgm_sock_t *socket, int status, int milliseconds, short events) {
    struct timeval left;
    socklen_t length = sizeof left;
    int option = status == PGM_IO_STATUS_TIMER_PENDING ? PGM_TIME_REMAIN : PGM_RATE_REMAIN;
    bool timed = status == PGM_IO_STATUS_TIMER_PENDING || status == PGM_IO_STATUS_RATE_LIMITED;
    if (timed && pgm_getsockopt(socket, IPPROTO_PGM, option, &left, &length)) {
        int until = left.tv_sec * 1000 + (left.tv_usec + 999) / 1000;
        milliseconds = until < milliseconds ? until : milliseconds;
    }
    struct pollfd descriptors[8];
    int number = 8;
    memset(descriptors, 0, sizeof descriptors);
    pgm_poll_info(socket, descriptors, &number, events);
    poll(descriptors, number, milliseconds);
}

static pgm_sock_t *open_socket(bool sends) {
    pgm_error_t *error = NULL;
    need(pgm_init(&error), "init", error);
    char network[64];
    snprintf(network, sizeof network, "%s;239.6.6.6", args[3]);
    struct pgm_addrinfo_t *addresses = NULL;
    need(pgm_getaddrinfo(network, NULL, &addresses, &error), network, error);
    pgm_sock_t *socket = NULL;
    need(pgm_socket(&socket, AF_INET, SOCK_SEQPACKET, IPPROTO_UDP, &error), "socket", error);
    set(socket, PGM_UDP_ENCAP_UCAST_PORT, PORT);
    set(socket, PGM_UDP_ENCAP_MCAST_PORT, PORT);
    set(socket, PGM_MTU, 1500);
    int buffer = SOCKET_BUFFER;
    pgm_setsockopt(socket, SOL_SOCKET, SO_RCVBUF, &buffer, sizeof buffer);
    pgm_setsockopt(socket, SOL_SOCKET, SO_SNDBUF, &buffer, sizeof buffer);
    if (sends) {
        set(socket, PGM_SEND_ONLY, 1);
        set(socket, PGM_TXW_SQNS, WINDOW);
        set(socket, PGM_TXW_MAX_RTE, (int)setting("rate", 25e6));
        set(socket, PGM_AMBIENT_SPM, pgm_secs(1));
        const int tenth = pgm_msecs(100), beats[] = {tenth, tenth, tenth, tenth, 3 * tenth, pgm_secs(1)};
        need(pgm_setsockopt(socket, IPPROTO_PGM, PGM_HEARTBEAT_SPM, beats, sizeof beats), "heartbeats", NULL);
    } else {
        set(socket, PGM_RECV_ONLY, 1);
        set(socket, PGM_PASSIVE, 0);
        set(socket, PGM_RXW_SQNS, WINDOW);
        set(socket, PGM_PEER_EXPIRY, pgm_secs(300));
        set(socket, PGM_SPMR_EXPIRY, pgm_msecs(250));
        set(socket, PGM_NAK_BO_IVL, pgm_msecs((int)setting("backoff", 5)));
        set(socket, PGM_NAK_RPT_IVL, pgm_msecs((int)setting("repeat", 50)));
        set(socket, PGM_NAK_RDATA_IVL, pgm_msecs((int)setting("repair", 50)));
        set(socket, PGM_NAK_DATA_RETRIES, RETRIES);
        set(socket, PGM_NAK_NCF_RETRIES, RETRIES);
    }
    struct pgm_sockaddr_t place = {.sa_port = 7500};
    char identity[64];
    snprintf(identity, sizeof identity, "%s-%d", args[3], getpid());
    pgm_gsi_create_from_string(&place.sa_addr.gsi, identity, -1);
    struct pgm_interface_req_t interface = {.ir_interface = addresses->ai_recv_addrs[0].gsr_interface};
    memcpy(&interface.ir_address, &addresses->ai_send_addrs[0].gsr_addr, sizeof(struct sockaddr_storage));
    const socklen_t size = sizeof interface;
    need(pgm_bind3(socket, &place, sizeof place, &interface, size, &interface, size, &error), "bind", error);
    struct pgm_group_source_req *group = &addresses->ai_recv_addrs[0];
    need(pgm_setsockopt(socket, IPPROTO_PGM, PGM_JOIN_GROUP, group, sizeof *group), "join", NULL);
    group = &addresses->ai_send_addrs[0];
    need(pgm_setsockopt(socket, IPPROTO_PGM, PGM_SEND_GROUP, group, sizeof *group), "group", NULL);
    set(socket, PGM_MULTICAST_LOOP, 0);
    set(socket, PGM_MULTICAST_HOPS, 1);
    set(socket, PGM_NOBLOCK, 1);
    need(pgm_connect(socket, &error), "connect", error);
    return socket;
}

// Takes NAKs, and sends what they ask for.
static int take_requests(pgm_sock_t *socket) {
    char nothing[2048];
    int status = PGM_IO_STATUS_NORMAL;
    for (int i = 0; i < 64 && status == PGM_IO_STATUS_NORMAL; i++) {
        size_t length;
        pgm_error_t *error = NULL;
        status = pgm_recv(socket, nothing, sizeof nothing, MSG_DONTWAIT, &length, &error);
        if (error)
            pgm_error_free(error);
    }
    return status;
}

static int send_file(pgm_sock_t *socket) {
    int file = open(args[2], O_RDONLY);
    struct stat about;
    need(file >= 0 && !fstat(file, &about), args[2], NULL);
    const char *bytes = mmap(NULL, about.st_size, PROT_READ, MAP_PRIVATE, file, 0);
    uint64_t size = about.st_size, sent = 0;
    bool told = false;
    for (int turn = 1; !stopping && sent < size; turn++) {
        size_t piece = size - sent < MESSAGE ? size - sent : MESSAGE, written;
        piece = told ? piece : sizeof size;
        int status = pgm_send(socket, told ? bytes + sent : (const char *)&size, piece, &written);
        need(status != PGM_IO_STATUS_ERROR, "send", NULL);
        if (status == PGM_IO_STATUS_NORMAL) {
            sent += told ? piece : 0;
            told = true;
        }
        if (status != PGM_IO_STATUS_NORMAL || turn % 16 == 0)
            take_requests(socket);
        if (status != PGM_IO_STATUS_NORMAL)
            wait_for(socket, status, 5, status == PGM_IO_STATUS_WOULD_BLOCK ? POLLOUT | POLLIN : POLLIN);
    }
    while (!stopping)
        wait_for(socket, take_requests(socket), 20, POLLIN);
    return sent < size;
}

static int receive(pgm_sock_t *socket) {
    FILE *file = fopen(args[2], "wb");
    need(file != NULL, args[2], NULL);
    static char message[65536];
    uint64_t size = 0, got = 0;
    bool told = false;
    puts("READY");
    while (!stopping) {
        size_t length;
        pgm_error_t *error = NULL;
        int status = pgm_recv(socket, message, sizeof message, MSG_DONTWAIT, &length, &error);
        need(status > PGM_IO_STATUS_EOF || status == PGM_IO_STATUS_NORMAL, "receive", error);
        if (error)
            pgm_error_free(error);
        if (status != PGM_IO_STATUS_NORMAL) {
            wait_for(socket, status, 50, POLLIN);
        } else if (!told) {
            need(length == sizeof size, "it begins in the middle", NULL);
            memcpy(&size, message, sizeof size);
            told = true;
        } else {
            got += fwrite(message, 1, length, file);
            if (got >= size)
                break;
        }
    }
    fclose(file);
    if (!told || got < size)
        return 1;
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    printf("DONE %ld.%09ld\n", (long)now.tv_sec, now.tv_nsec);
    return 0;
}

int main(int given_count, char **given) {
    count = given_count;
    args = given;
    if (count < 4)
        return 2;
    bool sends = !strcmp(args[1], "send");
    setvbuf(stdout, NULL, _IOLBF, 0);
    signal(SIGTERM, stop);
    pgm_sock_t *socket = open_socket(sends);
    int code = sends ? send_file(socket) : receive(socket);
    pgm_close(socket, true);
    return code;
}
