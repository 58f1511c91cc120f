// What live senders and receivers have in common: messages of 100 bytes, each with when it was due by the monotonic
// clock, its number, and how many there are; and how late they came.
#pragma once
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { LIVE_MESSAGE = 100 };

typedef struct {
    int64_t due;
    uint64_t number, total;
    char rest[LIVE_MESSAGE - 24];
} live_message;

static int64_t live_now(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return now.tv_sec * INT64_C(1000000000) + now.tv_nsec;
}

// Sends at a rate for some seconds. What waits because the sender is held up is late, too. `flush` is called when
// nothing more is due for now.
static inline void live_send(double rate, double seconds, void (*send)(const live_message *), void (*flush)(void)) {
    live_message message;
    memset(&message, 0, sizeof message);
    message.total = (uint64_t)(rate * seconds);
    const int64_t begin = live_now();
    for (; message.number < message.total; message.number++) {
        message.due = begin + (int64_t)(message.number / rate * 1e9);
        if (message.due > live_now()) {
            flush();
            struct timespec until = {message.due / 1000000000, message.due % 1000000000};
            clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &until, NULL);
        }
        send(&message);
    }
    flush();
}

static int64_t *live_ages;
static uint64_t live_count, live_total;

// Takes one message; whether it was the last.
static inline int live_take(const live_message *message) {
    if (!live_ages) {
        live_total = message->total;
        live_ages = (int64_t *)calloc(live_total, sizeof *live_ages);
    }
    if (live_count < live_total)
        live_ages[live_count++] = live_now() - message->due;
    return message->number + 1 == message->total;
}

static inline int live_order(const void *one, const void *other) {
    const int64_t a = *(const int64_t *)one, b = *(const int64_t *)other;
    return (a > b) - (a < b);
}

static inline double live_at(double share) {
    return live_count ? live_ages[(uint64_t)(share * (live_count - 1))] / 1e3 : 0;
}

// How many came of how many, and the microseconds that half, 99 % and 99.9 % of them took at most.
static inline void live_tell(void) {
    if (live_count)
        qsort(live_ages, live_count, sizeof *live_ages, live_order);
    printf("DONE %llu %llu", (unsigned long long)live_count, (unsigned long long)live_total);
    printf(" %.1f %.1f %.1f\n", live_at(0.5), live_at(0.99), live_at(0.999));
    fflush(stdout);
}
