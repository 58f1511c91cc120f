// A stream of messages by NORM, on its public interface.
//
//     norm-stream send FILE BYTES SECONDS [KEY=VALUE...]
//     norm-stream recv FILE NODE QUIET
//
// The sender cuts the file into messages of BYTES, marks and flushes each, ends the stream and stays SECONDS for
// repairs. The receiver says READY, begins at a message, writes the bytes of all messages to the file, ends with the
// stream or when nothing came for QUIET seconds after the first byte, and says DONE with the number of bytes and
// whether the stream has ended. Keys: rate (bit/s).
#include <time.h>

#include <vector>

#include "norm.h"

namespace {

// Of a second, in microseconds.
const int TENTH = 100000;

double seconds() {
    timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return now.tv_sec + now.tv_nsec * 1e-9;
}

int send(NormInstanceHandle instance, NormSessionHandle session, int count, char **args) {
    FILE *file = fopen(args[2], "rb");
    if (!file)
        return perror(args[2]), 1;
    NormSetGrttEstimate(session, 0.01);
    NormSetGroupSize(session, 10);
    NormSetTxRate(session, setting(count, args, "rate", 100e6));
    if (!NormStartSender(session, 1, 8 << 20, 1400, 64, 32))
        return fprintf(stderr, "the sender does not start\n"), 1;
    NormSetTxSocketBuffer(session, 4 << 20);
    NormObjectHandle stream = NormStreamOpen(session, 8 << 20);
    std::vector<char> message(atoi(args[3]));
    NormEvent event;
    while (unsigned length = fread(message.data(), 1, message.size(), file)) {
        for (unsigned written = 0; written < length;) {
            written += NormStreamWrite(stream, message.data() + written, length - written);
            if (written < length)
                next(instance, &event, 1000);
        }
        NormStreamFlush(stream, true, NORM_FLUSH_PASSIVE);
    }
    NormStreamClose(stream, true);
    for (double end = seconds() + atof(args[4]); seconds() < end;)
        next(instance, &event, TENTH);
    return 0;
}

int receive(NormInstanceHandle instance, NormSessionHandle session, char **args) {
    FILE *file = fopen(args[2], "wb");
    if (!file)
        return perror(args[2]), 1;
    NormSetDefaultUnicastNack(session, true);
    NormSetDefaultSyncPolicy(session, NORM_SYNC_STREAM);
    if (!NormStartReceiver(session, 8 << 20))
        return fprintf(stderr, "the receiver does not start\n"), 1;
    NormSetRxSocketBuffer(session, 4 << 20);
    puts("READY");
    long bytes = 0;
    bool begun = false, ended = false;
    double heard = 0;
    while (!ended && (!heard || seconds() < heard + atof(args[4]))) {
        NormEvent event;
        if (!next(instance, &event, TENTH))
            continue;
        ended = event.type == NORM_RX_OBJECT_COMPLETED;
        if (event.type != NORM_RX_OBJECT_UPDATED && !ended)
            continue;
        begun = begun || NormStreamSeekMsgStart(event.object);
        char buffer[65536];
        while (begun) {
            unsigned length = sizeof buffer;
            if (!NormStreamRead(event.object, buffer, &length)) {
                // Some is lost for good.
                puts("BROKEN");
                begun = NormStreamSeekMsgStart(event.object);
                continue;
            }
            if (!length)
                break;
            bytes += fwrite(buffer, 1, length, file);
            heard = seconds();
        }
    }
    fclose(file);
    printf("DONE %ld %d\n", bytes, ended);
    return 0;
}

}  // namespace

int main(int count, char **args) {
    if (count < 5)
        return 2;
    const bool sends = !strcmp(args[1], "send");
    setvbuf(stdout, nullptr, _IOLBF, 0);
    return in_session(sends ? 1 : (NormNodeId)atoi(args[3]), [&](NormInstanceHandle instance, NormSessionHandle session) {
        return sends ? send(instance, session, count, args) : receive(instance, session, args);
    });
}
