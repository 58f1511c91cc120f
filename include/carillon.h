/* Messages to many receivers over reliable multicast, with any protocol of carillon.
 *
 * Link with -lcarillon_c (cargo build --release -p carillon-c). Strings are UTF-8 and end with 0. After a failure,
 * carillon_error() returns the reason. Each object may be used by one thread at a time. */
#ifndef CARILLON_H
#define CARILLON_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Values that carillon_recv returns instead of a length. */
#define CARILLON_END (-1)       /* all senders have finished, and every message was received */
#define CARILLON_FAILED (-2)    /* see carillon_error */
#define CARILLON_TIMEOUT (-4)   /* no message within the time: the session goes on */
#define CARILLON_TOO_LONG (-3)  /* the buffer is too small: carillon_next returns the length, and the message stays next */

typedef struct carillon_sender carillon_sender;
typedef struct carillon_listener carillon_listener;
typedef struct carillon_session carillon_session;
typedef struct carillon_report carillon_report;

/* Selects the daemon (carillon daemon) for the sockets that this process opens from now on: the one listening at this
 * path, the one at the default path for "", or none for NULL. Returns 0, or CARILLON_FAILED. */
int carillon_through(const char *daemon);

/* Sets an option of every endpoint that this thread opens from now on. "key_file" is the path of a key; all other keys and
 * values are those of docs/reference/options.md, for example "rate" "16000000" (bits per second), "expect" "web1" (repeated
 * for each receiver), "set" "window=64", "timeout" "5000000000" (nanoseconds). NULL as the key forgets all options.
 * Returns 0, or CARILLON_FAILED if there is no such option or its value is wrong. */
int carillon_set(const char *key, const char *value);

/* Interfaces are names or addresses; several are separated by commas. */

/* Opens a session as its sender. Waits up to a minute until this number of receivers have joined, and starts with the
 * receivers that have; with 0 the options decide, and without options it starts two seconds after the first. The group is an address and a port, such as "239.1.2.3:4567". Interface, name and protocol may be
 * NULL. Returns NULL on failure, also if no receiver has joined. */
carillon_sender *carillon_connect(const char *group, const char *interface, const char *name, const char *protocol,
                                  size_t receivers);
/* Sends a message of at most 16 MiB; blocks while the send queue is full. Returns 0, or CARILLON_FAILED. */
int carillon_send(carillon_sender *sender, const void *message, size_t length);
/* Ends the session and frees the sender. Waits until every receiver has all messages or was expelled. Returns the number
 * of receivers that miss messages or did not join; CARILLON_FAILED if the session failed. */
int carillon_close(carillon_sender *sender);
/* Aborts the session without waiting, and frees the sender. NULL does nothing. */
void carillon_abort(carillon_sender *sender);

/* Opens the sockets of a receiver. Interface and name may be NULL. Returns NULL on failure. */
carillon_listener *carillon_listen(const char *group, const char *interface, const char *name);
/* Waits for a session and joins it; the session before must be over. Returns NULL on failure. */
carillon_session *carillon_accept(carillon_listener *listener);
/* Frees the listener. Accepted sessions continue. NULL does nothing. */
void carillon_listener_free(carillon_listener *listener);

/* Waits for the next message and copies it. Returns its length, or one of the values above. */
int64_t carillon_recv(carillon_session *session, void *buffer, size_t size);
/* As carillon_recv, but waits for this time at most. */
int64_t carillon_recv_within(carillon_session *session, void *buffer, size_t size, uint32_t milliseconds);
/* Returns a descriptor for poll, epoll or select, which belongs to the session, or CARILLON_FAILED. It becomes readable when
 * a message or the end is there, and stays so until carillon_recv_within(session, buffer, size, 0) has returned
 * CARILLON_TIMEOUT. Do not read from it, and do not close it. */
int carillon_descriptor(carillon_session *session);
/* Returns the length of the message that did not fit into the buffer, otherwise 0. */
size_t carillon_next(const carillon_session *session);
/* Returns the sender of the last message; before the first, the sender of the session. Valid until the next call. */
const char *carillon_from(const carillon_session *session);
/* Leaves the session if it is not over, and frees it. NULL does nothing. */
void carillon_session_free(carillon_session *session);

/* Sends files and directories; the options say for which receivers it waits. Interface and name may be NULL. Returns NULL if
 * nothing was sent; otherwise a report, with a row for each receiver. */
carillon_report *carillon_send_files(const char *group, const char *interface, const char *name,
                                     const char *const *paths, size_t count);
/* Receives one transfer of files into a directory. Returns NULL on failure; otherwise a report, with a row for the sender. */
carillon_report *carillon_receive_files(const char *group, const char *interface, const char *name,
                                        const char *directory);
/* Returns 1 if everything arrived, at a sender at all receivers, otherwise 0. */
int carillon_report_complete(const carillon_report *report);
/* Returns why the whole transfer failed, or "". Strings of a report are valid until it is freed. */
const char *carillon_report_failure(const carillon_report *report);
/* Returns the bytes of all files. */
uint64_t carillon_report_bytes(const carillon_report *report);
/* Returns the number of rows. */
size_t carillon_report_rows(const carillon_report *report);
/* Returns the name in a row; "verified", "failed", "lost", "missing" or "receiving"; and the reason, or "". */
const char *carillon_report_name(const carillon_report *report, size_t row);
const char *carillon_report_result(const carillon_report *report, size_t row);
const char *carillon_report_reason(const carillon_report *report, size_t row);
/* Frees the report. NULL does nothing. */
void carillon_report_free(carillon_report *report);

/* Returns the last error of this thread, in one line. Valid until the next call of this thread. */
const char *carillon_error(void);

#ifdef __cplusplus
}
#endif
#endif
