// A file by NORM, on its public interface.
//
//     norm-file send FILE RECEIVERS [KEY=VALUE...]
//     norm-file recv FILE NODE
//
// Receivers are the nodes 11, 12, ... A receiver says READY, and when it has the whole file DONE with the time of the
// monotonic clock; it stays, for the sender is told then. The sender ends when all have acknowledged. Keys: rate
// (bit/s), grtt (seconds, as first guessed), buffer (bytes), block and parity (segments).
#include <signal.h>
#include <sys/stat.h>
#include <time.h>

#include <string>

#include "norm.h"

namespace {

const int FIRST_NODE = 11, SOCKET_BUFFER = 4 << 20, SEGMENT = 1400;
// Of a second, in microseconds.
const int TENTH = 100000;

volatile sig_atomic_t stopping;

void stop(int) { stopping = 1; }

int send(NormInstanceHandle instance, NormSessionHandle session, int count, char **args) {
    const int receivers = atoi(args[3]);
    struct stat about;
    if (stat(args[2], &about))
        return perror(args[2]), 1;
    NormSetGrttEstimate(session, setting(count, args, "grtt", 0.01));
    NormSetGroupSize(session, receivers < 10 ? 10 : receivers);
    NormSetTxRate(session, setting(count, args, "rate", 100e6));
    NormSetTxCacheBounds(session, (NormSize)about.st_size * 2, 1, 16);
    const UINT32 buffer = (UINT32)setting(count, args, "buffer", 8e6);
    const UINT16 block = (UINT16)setting(count, args, "block", 64), parity = (UINT16)setting(count, args, "parity", 32);
    if (!NormStartSender(session, 1, buffer, SEGMENT, block, parity))
        return fprintf(stderr, "the sender does not start\n"), 1;
    NormSetTxSocketBuffer(session, SOCKET_BUFFER);
    for (int i = 0; i < receivers; i++)
        NormAddAckingNode(session, FIRST_NODE + i);
    NormObjectHandle file = NormFileEnqueue(session, args[2], "file", 4);
    if (file == NORM_OBJECT_INVALID)
        return fprintf(stderr, "the file is not taken\n"), 1;
    NormSetWatermark(session, file, true);
    NormEvent event;
    while (!stopping) {
        if (!next(instance, &event, TENTH) || event.type != NORM_TX_WATERMARK_COMPLETED)
            continue;
        int acknowledged = 0;
        for (int i = 0; i < receivers; i++)
            acknowledged += NormGetAckingStatus(session, FIRST_NODE + i) == NORM_ACK_SUCCESS;
        if (acknowledged == receivers)
            return 0;
        // It has given up asking those who did not answer.
        NormResetWatermark(session);
    }
    return 1;
}

int receive(NormInstanceHandle instance, NormSessionHandle session, int count, char **args) {
    const std::string path = args[2];
    NormSetCacheDirectory(instance, path.substr(0, path.rfind('/') + 1).c_str());
    NormSetDefaultUnicastNack(session, true);
    if (!NormStartReceiver(session, (UINT32)setting(count, args, "buffer", 8e6)))
        return fprintf(stderr, "the receiver does not start\n"), 1;
    NormSetRxSocketBuffer(session, SOCKET_BUFFER);
    puts("READY");
    NormEvent event;
    while (!stopping) {
        if (!next(instance, &event, TENTH) || event.type != NORM_RX_OBJECT_COMPLETED)
            continue;
        NormFileRename(event.object, path.c_str());
        timespec now;
        clock_gettime(CLOCK_MONOTONIC, &now);
        printf("DONE %ld.%09ld\n", (long)now.tv_sec, now.tv_nsec);
    }
    return 0;
}

}  // namespace

int main(int count, char **args) {
    if (count < 4)
        return 2;
    const bool sends = !strcmp(args[1], "send");
    setvbuf(stdout, nullptr, _IOLBF, 0);
    signal(SIGTERM, stop);
    return in_session(sends ? 1 : (NormNodeId)atoi(args[3]), [&](NormInstanceHandle instance, NormSessionHandle session) {
        return (sends ? send : receive)(instance, session, count, args);
    });
}
