// Live messages by ZeroMQ, published and subscribed over epgm or norm.
//
//     zmq-live send ENDPOINT RATE SECONDS
//     zmq-live recv ENDPOINT
//
// The sender stays for repairs until it is stopped. A receiver says READY, and DONE with how late messages came when it
// has the last one or nothing comes for five seconds.
#include <unistd.h>
#include <zmq.h>

#include "live.h"

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

static void send_one(const live_message *message) {
    need(zmq_send(wire, message, sizeof *message, 0), "send");
}

static void nothing_due(void) {}

int main(int count, char **args) {
    if (count < 3)
        return 2;
    const int sends = !strcmp(args[1], "send");
    if (sends && count < 5)
        return 2;
    void *context = zmq_ctx_new();
    wire = zmq_socket(context, sends ? ZMQ_PUB : ZMQ_SUB);
    // Kilobits a second, and milliseconds for repairs; nothing is dropped by the library itself.
    set(ZMQ_RATE, 400000);
    set(ZMQ_RECOVERY_IVL, 2000);
    set(ZMQ_MULTICAST_HOPS, 1);
    set(ZMQ_SNDHWM, 0);
    set(ZMQ_RCVHWM, 0);
    set(ZMQ_SNDBUF, 4 << 20);
    set(ZMQ_RCVBUF, 4 << 20);
    set(ZMQ_LINGER, 2000);
    if (sends) {
        need(zmq_connect(wire, args[2]), args[2]);
        live_send(atof(args[3]), atof(args[4]), send_one, nothing_due);
        // For repairs, until it is stopped.
        pause();
    }
    need(zmq_setsockopt(wire, ZMQ_SUBSCRIBE, "", 0), "subscribe");
    need(zmq_connect(wire, args[2]), args[2]);
    puts("READY");
    fflush(stdout);
    live_message message;
    for (int last = 0; !last;) {
        zmq_pollitem_t item = {wire, 0, ZMQ_POLLIN, 0};
        if (zmq_poll(&item, 1, live_count ? 5000 : -1) <= 0)
            break;
        while (!last && zmq_recv(wire, &message, sizeof message, ZMQ_DONTWAIT) == sizeof message)
            last = live_take(&message);
    }
    live_tell();
    return 0;
}
