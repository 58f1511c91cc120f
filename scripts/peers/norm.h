// What programs on NORM's public interface have in common (C++ in version 1.5.9, by its references).
#pragma once

#include <normApi.h>
#include <sys/select.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>

// What KEY=VALUE after the first four arguments says of a key.
inline double setting(int count, char **args, const char *key, double otherwise) {
    for (int i = 4; i < count; i++)
        if (!strncmp(args[i], key, strlen(key)) && args[i][strlen(key)] == '=')
            return atof(args[i] + strlen(key) + 1);
    return otherwise;
}

// The next event; waits for it so many microseconds at most.
inline bool next(NormInstanceHandle instance, NormEvent *event, int wait) {
    int descriptor = NormGetDescriptor(instance);
    fd_set set;
    FD_ZERO(&set);
    FD_SET(descriptor, &set);
    timeval time = {wait / 1000000, wait % 1000000};
    return select(descriptor + 1, &set, nullptr, nullptr, &time) > 0 && NormGetNextEvent(instance, event, false);
}

// Runs what is to be done as this node, in a session on eth0; its exit code.
template <typename Work> int in_session(NormNodeId node, Work work) {
    NormInstanceHandle instance = NormCreateInstance();
    NormSessionHandle session = NormCreateSession(instance, "239.5.5.5", 6003, node);
    if (session == NORM_SESSION_INVALID)
        return fprintf(stderr, "no session\n"), 1;
    NormSetMulticastInterface(session, "eth0");
    NormSetTTL(session, 1);
    NormSetRxPortReuse(session, true);
    int code = work(instance, session);
    NormDestroySession(session);
    NormDestroyInstance(instance);
    return code;
}
