// Live messages by NORM: one stream to the group.
//
//     norm-live send RATE SECONDS [KEY=VALUE...]
//     norm-live recv NODE
//
// The sender stays for repairs until it is stopped. A receiver says READY, and DONE with how late messages came when it
// has the last one or nothing comes for five seconds.
// Keys: rate (bit/s), grtt (seconds, as first guessed), backoff (of NACKs, in round-trip times).
#include "live.h"
#include "norm.h"

namespace {

NormInstanceHandle instance;
NormObjectHandle stream;

void send_one(const live_message *message) {
    const char *bytes = (const char *)message;
    for (unsigned written = 0; written < sizeof *message;) {
        written += NormStreamWrite(stream, bytes + written, sizeof *message - written);
        NormEvent event;
        if (written < sizeof *message)
            next(instance, &event, 1000);
    }
}

// What does not fill a packet goes out all the same.
void nothing_due() { NormStreamFlush(stream, false, NORM_FLUSH_PASSIVE); }

int send(NormSessionHandle session, int count, char **args) {
    NormSetGrttEstimate(session, setting(count, args, "grtt", 0.001));
    NormSetGroupSize(session, 10);
    NormSetBackoffFactor(session, setting(count, args, "backoff", 1));
    NormSetTxRate(session, setting(count, args, "rate", 200e6));
    if (!NormStartSender(session, 1, 8 << 20, 1400, 64, 16))
        return fprintf(stderr, "the sender does not start\n"), 1;
    NormSetTxSocketBuffer(session, 4 << 20);
    stream = NormStreamOpen(session, 8 << 20);
    live_send(atof(args[2]), atof(args[3]), send_one, nothing_due);
    NormStreamFlush(stream, true, NORM_FLUSH_ACTIVE);
    NormEvent event;
    while (true)
        next(instance, &event, 100000);
}

int receive(NormSessionHandle session) {
    NormSetDefaultUnicastNack(session, true);
    if (!NormStartReceiver(session, 8 << 20))
        return fprintf(stderr, "the receiver does not start\n"), 1;
    NormSetRxSocketBuffer(session, 4 << 20);
    puts("READY");
    fflush(stdout);
    live_message message;
    unsigned have = 0;
    for (int64_t heard = 0; !heard || live_now() < heard + INT64_C(5000000000);) {
        NormEvent event;
        if (!next(instance, &event, 100000) || event.type != NORM_RX_OBJECT_UPDATED)
            continue;
        heard = live_now();
        while (true) {
            unsigned length = sizeof message - have;
            if (!NormStreamRead(event.object, (char *)&message + have, &length)) {
                // Some is lost for good, and where the next message begins is not known.
                printf("BROKEN\n");
                return live_tell(), 1;
            }
            if (!length)
                break;
            have = (have + length) % sizeof message;
            if (!have && live_take(&message))
                return live_tell(), 0;
        }
    }
    return live_tell(), 1;
}

}  // namespace

int main(int count, char **args) {
    if (count < 3)
        return 2;
    const bool sends = !strcmp(args[1], "send");
    if (sends && count < 4)
        return 2;
    return in_session(sends ? 1 : (NormNodeId)atoi(args[2]), [&](NormInstanceHandle made, NormSessionHandle session) {
        instance = made;
        return sends ? send(session, count, args) : receive(session);
    });
}
