// Messages by OpenPGM over UDP, as any program of its own would exchange them.
//
//     pgm-messages send FILE ADDRESS GROUP BYTES RATE SECONDS HOPS
//     pgm-messages recv FILE ADDRESS GROUP QUIET
//
// The sender cuts the file into messages of BYTES, sends RATE bytes a second, stays SECONDS for repairs and closes. The
// receiver says READY, writes the contents of all messages to the file, ends when none came for QUIET seconds after
// the first (four times as long before it), and says DONE with the numbers of messages, bytes and resets.
#define _GNU_SOURCE
#include <poll.h>

#include <pgm/pgm.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { PORT = 3055, WINDOW = 20000, BUFFER = 4 << 20, RETRIES = 50, LONGEST = 65536 };

static void need(bool done, const char *what, pgm_error_t *error) {
    if (done)
        return;
    fprintf(stderr, "%s: %s\n", what, error && error->message ? error->message : "refused");
    exit(1);
}

static double now(void) {
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return time.tv_sec + time.tv_nsec * 1e-9;
}

static void set(pgm_sock_t *wire, int option, int value) {
    need(pgm_setsockopt(wire, IPPROTO_PGM, option, &value, sizeof value), "a setting", NULL);
}

static void set_sender(pgm_sock_t *wire, int rate) {
    set(wire, PGM_SEND_ONLY, 1);
    set(wire, PGM_TXW_SQNS, WINDOW);
    // Repairs share this rate with data, of which the library sends a millisecond's worth each time that it is called.
    set(wire, PGM_TXW_MAX_RTE, 4 * rate);
    set(wire, PGM_AMBIENT_SPM, pgm_secs(1));
    const int beat = pgm_msecs(100), beats[] = {beat, beat, beat, beat, 3 * beat, pgm_secs(1)};
    need(pgm_setsockopt(wire, IPPROTO_PGM, PGM_HEARTBEAT_SPM, beats, sizeof beats), "heartbeats", NULL);
}

static void set_receiver(pgm_sock_t *wire) {
    set(wire, PGM_RECV_ONLY, 1);
    set(wire, PGM_PASSIVE, 0);
    set(wire, PGM_RXW_SQNS, WINDOW);
    set(wire, PGM_PEER_EXPIRY, pgm_secs(300));
    set(wire, PGM_SPMR_EXPIRY, pgm_msecs(250));
    set(wire, PGM_NAK_BO_IVL, pgm_msecs(20));
    set(wire, PGM_NAK_RPT_IVL, pgm_msecs(200));
    set(wire, PGM_NAK_RDATA_IVL, pgm_msecs(200));
    set(wire, PGM_NAK_DATA_RETRIES, RETRIES);
    set(wire, PGM_NAK_NCF_RETRIES, RETRIES);
}

static pgm_sock_t *open_wire(const char *address, const char *group, int rate, int hops) {
    pgm_error_t *error = NULL;
    need(pgm_init(&error), "init", error);
    char network[128];
    snprintf(network, sizeof network, "%s;%s", address, group);
    struct pgm_addrinfo_t *found = NULL;
    need(pgm_getaddrinfo(network, NULL, &found, &error), network, error);
    pgm_sock_t *wire = NULL;
    need(pgm_socket(&wire, AF_INET, SOCK_SEQPACKET, IPPROTO_UDP, &error), "socket", error);
    set(wire, PGM_UDP_ENCAP_UCAST_PORT, PORT);
    set(wire, PGM_UDP_ENCAP_MCAST_PORT, PORT);
    set(wire, PGM_MTU, 1500);
    int buffer = BUFFER;
    pgm_setsockopt(wire, SOL_SOCKET, SO_RCVBUF, &buffer, sizeof buffer);
    pgm_setsockopt(wire, SOL_SOCKET, SO_SNDBUF, &buffer, sizeof buffer);
    rate ? set_sender(wire, rate) : set_receiver(wire);
    struct pgm_sockaddr_t place = {.sa_port = 7500};
    char name[64];
    snprintf(name, sizeof name, "%s %f", address, now());
    pgm_gsi_create_from_string(&place.sa_addr.gsi, name, -1);
    struct pgm_interface_req_t interface = {.ir_interface = found->ai_recv_addrs[0].gsr_interface};
    memcpy(&interface.ir_address, &found->ai_send_addrs[0].gsr_addr, sizeof(struct sockaddr_storage));
    const socklen_t size = sizeof interface;
    need(pgm_bind3(wire, &place, sizeof place, &interface, size, &interface, size, &error), "bind", error);
    struct pgm_group_source_req *one = &found->ai_recv_addrs[0];
    need(pgm_setsockopt(wire, IPPROTO_PGM, PGM_JOIN_GROUP, one, sizeof *one), "join", NULL);
    one = &found->ai_send_addrs[0];
    need(pgm_setsockopt(wire, IPPROTO_PGM, PGM_SEND_GROUP, one, sizeof *one), "group", NULL);
    set(wire, PGM_MULTICAST_LOOP, 0);
    set(wire, PGM_MULTICAST_HOPS, hops);
    set(wire, PGM_NOBLOCK, 1);
    need(pgm_connect(wire, &error), "connect", error);
    return wire;
}

static void pause_for(pgm_sock_t *wire, short events) {
    struct pollfd descriptors[8];
    int number = 8;
    memset(descriptors, 0, sizeof descriptors);
    pgm_poll_info(wire, descriptors, &number, events);
    poll(descriptors, number, 1);
}

// Takes NAKs, which the library answers meanwhile.
static void serve(pgm_sock_t *wire) {
    char none[2048];
    size_t length;
    for (int i = 0; i < 64; i++) {
        pgm_error_t *error = NULL;
        int status = pgm_recv(wire, none, sizeof none, MSG_DONTWAIT, &length, &error);
        if (error)
            pgm_error_free(error);
        if (status != PGM_IO_STATUS_NORMAL)
            return;
    }
}

static int send_all(pgm_sock_t *wire, const char *name, size_t bytes, double rate, double stay) {
    FILE *file = fopen(name, "rb");
    need(file != NULL, name, NULL);
    static char message[LONGEST];
    size_t length, written, sent = 0;
    const double start = now();
    for (int turn = 0; (length = fread(message, 1, bytes, file)) > 0; sent += length) {
        int status;
        for (; now() < start + sent / rate; pause_for(wire, POLLIN))
            serve(wire);
        while ((status = pgm_send(wire, message, length, &written)) != PGM_IO_STATUS_NORMAL) {
            need(status != PGM_IO_STATUS_ERROR, "send", NULL);
            serve(wire);
            pause_for(wire, POLLIN);
        }
        if (++turn % 16 == 0)
            serve(wire);
    }
    for (double end = now() + stay; now() < end; pause_for(wire, POLLIN))
        serve(wire);
    return 0;
}

static int receive_all(pgm_sock_t *wire, const char *name, double quiet) {
    FILE *file = fopen(name, "wb");
    need(file != NULL, name, NULL);
    static char message[LONGEST];
    long messages = 0, bytes = 0, resets = 0;
    puts("READY");
    for (double end = now() + 4 * quiet; now() < end;) {
        size_t length;
        pgm_error_t *error = NULL;
        int status = pgm_recv(wire, message, sizeof message, MSG_DONTWAIT, &length, &error);
        if (error)
            pgm_error_free(error);
        if (status == PGM_IO_STATUS_NORMAL) {
            messages++;
            bytes += fwrite(message, 1, length, file);
            end = now() + quiet;
        } else {
            resets += status == PGM_IO_STATUS_RESET;
            pause_for(wire, POLLIN);
        }
    }
    fclose(file);
    printf("DONE %ld %ld %ld\n", messages, bytes, resets);
    return 0;
}

int main(int count, char **args) {
    if (count < 6)
        return 2;
    setvbuf(stdout, NULL, _IOLBF, 0);
    const bool sends = !strcmp(args[1], "send") && count == 9;
    pgm_sock_t *wire = open_wire(args[3], args[4], sends ? atoi(args[6]) : 0, sends ? atoi(args[8]) : 1);
    int code = sends ? send_all(wire, args[2], atol(args[5]), atof(args[6]), atof(args[7]))
                     : receive_all(wire, args[2], atof(args[5]));
    pgm_close(wire, true);
    return code;
}
