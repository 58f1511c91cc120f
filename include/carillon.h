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
#define CARILLON_TOO_LONG (-3)  /* the buffer is too small: carillon_next returns the length, and the message stays next */

typedef struct carillon_sender carillon_sender;
typedef struct carillon_listener carillon_listener;
typedef struct carillon_session carillon_session;

/* Selects the daemon (carillon daemon) for the sockets that this process opens from now on: the one listening at this
 * path, the one at the default path for "", or none for NULL. Returns 0, or CARILLON_FAILED. */
int carillon_through(const char *daemon);

/* Opens a session as its sender. Waits up to a minute until this number of receivers have joined, and starts with the
 * receivers that have. The group is an address and a port, such as "239.1.2.3:4567". Interface, name and protocol may be
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
/* Returns the length of the message that did not fit into the buffer, otherwise 0. */
size_t carillon_next(const carillon_session *session);
/* Returns the sender of the last message; before the first, the sender of the session. Valid until the next call. */
const char *carillon_from(const carillon_session *session);
/* Leaves the session if it is not over, and frees it. NULL does nothing. */
void carillon_session_free(carillon_session *session);

/* Returns the last error of this thread, in one line. Valid until the next call of this thread. */
const char *carillon_error(void);

#ifdef __cplusplus
}
#endif
#endif
