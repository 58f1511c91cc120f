/* Datagrams that nobody uses: what a network of this host carries at most to receivers of a multicast group, with
 * segmented sends, batched receives, and nothing else. For bench-bare.py.
 *
 *     bare-datagrams send ADDRESS MB_A_SECOND SECONDS     prints MB that went out in a second
 *     bare-datagrams receive ADDRESS SECONDS              prints MB that came in a second, from the first to the last
 *
 * ADDRESS is that of the interface. A datagram has 1472 bytes, a frame of 1500.
 */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <netinet/udp.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

enum { DATAGRAM = 1472, SEGMENTS = 44, BATCH = 16, BUFFER = 4 << 20, PORT = 7777 };

static const char *GROUP = "239.255.67.66";

static double now(void) {
    struct timespec at;
    clock_gettime(CLOCK_MONOTONIC, &at);
    return at.tv_sec + at.tv_nsec * 1e-9;
}

static void set(int fd, int level, int name, const void *value, socklen_t len) {
    if (setsockopt(fd, level, name, value, len)) {
        perror("setsockopt");
        exit(1);
    }
}

static void send_for(int fd, struct sockaddr_in group, double rate, double seconds) {
    static char run[SEGMENTS * DATAGRAM];
    int segment = DATAGRAM, buffer = BUFFER;
    set(fd, SOL_UDP, UDP_SEGMENT, &segment, sizeof segment);
    set(fd, SOL_SOCKET, SO_SNDBUFFORCE, &buffer, sizeof buffer);
    double begin = now(), at = begin, sent = 0;
    for (; at - begin < seconds; at = now()) {
        if (sent > (at - begin) * rate + 5 * sizeof run) {
            usleep(200);
        } else if (sendto(fd, run, sizeof run, 0, (struct sockaddr *)&group, sizeof group) > 0) {
            sent += sizeof run;
        }
    }
    printf("%f\n", sent / (at - begin) / 1e6);
}

static void receive_for(int fd, struct sockaddr_in group, struct ip_mreq membership, double seconds) {
    /* A message is a run of datagrams, where the kernel has joined them. */
    static char place[BATCH][65536];
    struct mmsghdr batch[BATCH] = {0};
    struct iovec parts[BATCH];
    for (int n = 0; n < BATCH; n++) {
        parts[n] = (struct iovec){place[n], sizeof place[n]};
        batch[n].msg_hdr.msg_iov = &parts[n];
        batch[n].msg_hdr.msg_iovlen = 1;
    }
    int buffer = BUFFER, join = 1;
    set(fd, SOL_UDP, UDP_GRO, &join, sizeof join);
    set(fd, SOL_SOCKET, SO_RCVBUFFORCE, &buffer, sizeof buffer);
    set(fd, IPPROTO_IP, IP_ADD_MEMBERSHIP, &membership, sizeof membership);
    if (bind(fd, (struct sockaddr *)&group, sizeof group)) {
        perror("bind");
        exit(1);
    }
    struct pollfd ready = {fd, POLLIN, 0};
    double begin = now(), first = 0, last = 0, came = 0;
    while (now() - begin < seconds) {
        if (poll(&ready, 1, 100) <= 0) continue;
        int count = recvmmsg(fd, batch, BATCH, MSG_DONTWAIT, NULL);
        if (count <= 0) continue;
        last = now();
        first = first ? first : last;
        for (int n = 0; n < count; n++) came += batch[n].msg_len;
    }
    printf("%f\n", last > first ? came / (last - first) / 1e6 : 0);
}

int main(int argc, char **argv) {
    int sends = argc == 5 && !strcmp(argv[1], "send");
    if (!sends && !(argc == 4 && !strcmp(argv[1], "receive"))) {
        fprintf(stderr, "bare-datagrams send ADDRESS MB_A_SECOND SECONDS | receive ADDRESS SECONDS\n");
        return 2;
    }
    int fd = socket(AF_INET, SOCK_DGRAM, 0), off = 0;
    struct sockaddr_in group = {.sin_family = AF_INET, .sin_port = htons(PORT)};
    struct ip_mreq membership;
    inet_aton(GROUP, &group.sin_addr);
    inet_aton(GROUP, &membership.imr_multiaddr);
    inet_aton(argv[2], &membership.imr_interface);
    if (!sends) {
        receive_for(fd, group, membership, atof(argv[3]));
        return 0;
    }
    set(fd, IPPROTO_IP, IP_MULTICAST_IF, &membership.imr_interface, sizeof membership.imr_interface);
    set(fd, IPPROTO_IP, IP_MULTICAST_LOOP, &off, sizeof off);
    send_for(fd, group, atof(argv[3]) * 1e6, atof(argv[4]));
    return 0;
}
