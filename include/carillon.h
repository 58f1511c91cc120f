/* Messages to many receivers over reliable multicast, with any protocol of carillon.
 *
 * Link with -lcarillon_c (cargo build --release -p carillon-c). Strings are UTF-8 and end with 0. Where a function has
 * failed, carillon_error() says why. Each object may be used by one thread at a time. */
#ifndef CARILLON_H
#define CARILLON_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* What carillon_recv gives instead of a length. */
#define CARILLON_END (-1)       /* everybody who sends has ended, and everything has come */
#define CARILLON_FAILED (-2)    /* see carillon_error */
#define CARILLON_TOO_LONG (-3)  /* the message does not fit: carillon_next has its length, and it is still to come */

typedef struct carillon_sender carillon_sender;
typedef struct carillon_listener carillon_listener;
typedef struct carillon_session carillon_session;

/* Sockets that this process opens from now on go through the daemon that listens at this path (carillon daemon), at the
 * usual one if it is "", through none if it is NULL. 0, or CARILLON_FAILED. */
int carillon_through(const char *daemon);

/* Opens a session as its sender: waits, at most a minute, until so many receivers are there, and begins with those that
 * are. The group is an address and a port, such as "239.1.2.3:4567". Interface, name and protocol may be NULL. NULL if it
 * has failed, also if no receiver is there. */
carillon_sender *carillon_connect(const char *group, const char *interface, const char *name, const char *protocol,
                                  size_t receivers);
/* Sends a message, of 16 MiB at most; waits while too much waits to go out. 0, or CARILLON_FAILED. */
int carillon_send(carillon_sender *sender, const void *message, size_t length);
/* Ends the session, frees the sender, and gives how many receivers have not got everything or did not come;
 * CARILLON_FAILED if the session has failed. Waits until all have it or were given up. */
int carillon_close(carillon_sender *sender);
/* Leaves the session without waiting, and frees the sender. NULL does nothing. */
void carillon_abort(carillon_sender *sender);

/* Opens the sockets of a receiver. Interface and name may be NULL. NULL if it has failed. */
carillon_listener *carillon_listen(const char *group, const char *interface, const char *name);
/* Waits for a session and takes part in it; the session before has to be over. NULL if it has failed. */
carillon_session *carillon_accept(carillon_listener *listener);
/* Frees it. Sessions that were accepted go on. NULL does nothing. */
void carillon_listener_free(carillon_listener *listener);

/* Waits for the next message, and copies it; its length, or one of the values above. */
int64_t carillon_recv(carillon_session *session, void *buffer, size_t size);
/* The length of the message that did not fit, otherwise 0. */
size_t carillon_next(const carillon_session *session);
/* The sender of the message that came last; before the first, who opened the session. Good until the next call. */
const char *carillon_from(const carillon_session *session);
/* Leaves the session if it is not over, and frees it. NULL does nothing. */
void carillon_session_free(carillon_session *session);

/* What went wrong last in this thread, in one line. Good until the next call of this thread. */
const char *carillon_error(void);

#ifdef __cplusplus
}
#endif
#endif
