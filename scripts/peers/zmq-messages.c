// Messages by ZeroMQ over epgm, as any program of its own would exchange them.
//
//     zmq-messages send FILE ENDPOINT BYTES GAP SECONDS
//     zmq-messages recv FILE ENDPOINT QUIET
//
// The sender cuts the file into messages of BYTES, sends one each GAP microseconds and stays SECONDS for repairs. The
// receiver says READY, writes the contents of all messages to the file, ends when none came for QUIET seconds after
// the first (four times as long before it), and says DONE with the numbers of messages and bytes.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <zmq.h>

static void *wire;

static void need(int result, const char *what) {
    if (result >= 0)
        return;
    fprintf(stderr, "%s: %s\n", what, zmq_strerror(zmq_errno()));
    exit(1);
}

static void set(int option, int value) {
    need(zmq_setsockopt(wire, option, &value, sizeof value), "a setting");
}

static void send_all(FILE *file, size_t bytes, useconds_t gap, unsigned stay) {
    char *message = malloc(bytes);
    size_t length;
    while ((length = fread(message, 1, bytes, file)) > 0) {
        need(zmq_send(wire, message, length, 0), "send");
        usleep(gap);
    }
    sleep(stay);
}

static void receive_all(FILE *file, int quiet) {
    long messages = 0, bytes = 0;
    zmq_msg_t message;
    zmq_msg_init(&message);
    puts("READY");
    fflush(stdout);
    for (;;) {
        zmq_pollitem_t item = {wire, 0, ZMQ_POLLIN, 0};
        if (zmq_poll(&item, 1, 1000 * quiet * (messages ? 1 : 4)) <= 0)
            break;
        need(zmq_msg_recv(&message, wire, 0), "receive");
        messages++;
        bytes += fwrite(zmq_msg_data(&message), 1, zmq_msg_size(&message), file);
    }
    fclose(file);
    printf("DONE %ld %ld\n", messages, bytes);
}

int main(int count, char **args) {
    if (count < 5)
        return 2;
    const int sends = !strcmp(args[1], "send") && count == 7;
    void *context = zmq_ctx_new();
    wire = zmq_socket(context, sends ? ZMQ_PUB : ZMQ_SUB);
    set(ZMQ_RATE, 100000);
    set(ZMQ_RECOVERY_IVL, 10000);
    set(ZMQ_MULTICAST_HOPS, 1);
    set(ZMQ_SNDHWM, 0);
    set(ZMQ_RCVHWM, 0);
    set(ZMQ_SNDBUF, 4 << 20);
    set(ZMQ_RCVBUF, 4 << 20);
    set(ZMQ_LINGER, 2000);
    FILE *file = fopen(args[2], sends ? "rb" : "wb");
    need(file ? 0 : -1, args[2]);
    if (!sends)
        need(zmq_setsockopt(wire, ZMQ_SUBSCRIBE, "", 0), "subscribe");
    need(zmq_connect(wire, args[3]), args[3]);
    if (sends)
        send_all(file, atol(args[4]), atol(args[5]), atoi(args[6]));
    else
        receive_all(file, atoi(args[4]));
    zmq_close(wire);
    zmq_ctx_term(context);
    return 0;
}
