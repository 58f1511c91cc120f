/* A link with delay, for kernels without tc netem: relays every Ethernet frame between two interfaces,
 * each frame a fixed time after it came, in its order.
 *
 *     link-emulator INTERFACE INTERFACE MICROSECONDS
 *
 * Says "ready" on stdout when frames are relayed; on SIGTERM or SIGINT says what it has relayed and lost.
 * Offloads of both interfaces are to be off (ethtool -K): then each frame is one packet. */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <errno.h>
#include <inttypes.h>
#include <linux/if_packet.h>
#include <net/ethernet.h>
#include <net/if.h>
#include <poll.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#ifndef PACKET_IGNORE_OUTGOING
#define PACKET_IGNORE_OUTGOING 23
#endif
/* Longest frame: one of 9000 bytes and its header. */
#define FRAME 9216
#define BATCH 64
/* Frames under way in one direction; more are lost, and counted. */
#define QUEUE 16384

typedef struct {
  uint64_t due;
  uint32_t length;
  uint8_t bytes[FRAME];
} frame;

typedef struct {
  int in, out;
  frame *queue;
  size_t head, count;
  uint64_t relayed, overflowed, refused;
} direction;

static volatile sig_atomic_t stop;

static void on_signal(int signal) {
  (void)signal;
  stop = 1;
}

static uint64_t now(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

static int open_interface(const char *name) {
  int one = 1, buffer = 64 << 20;
  int fd = socket(AF_PACKET, SOCK_RAW, htons(ETH_P_ALL));
  if (fd < 0) { perror("packet socket"); exit(1); }
  struct sockaddr_ll address = {
      .sll_family = AF_PACKET, .sll_protocol = htons(ETH_P_ALL), .sll_ifindex = (int)if_nametoindex(name)};
  struct packet_mreq promiscuous = {.mr_ifindex = address.sll_ifindex, .mr_type = PACKET_MR_PROMISC};
  /* Without this every relayed frame would come back as one that goes out. */
  if (setsockopt(fd, SOL_PACKET, PACKET_IGNORE_OUTGOING, &one, sizeof one)) { perror("PACKET_IGNORE_OUTGOING"); exit(1); }
  if (!address.sll_ifindex || bind(fd, (struct sockaddr *)&address, sizeof address)) { perror(name); exit(1); }
  if (setsockopt(fd, SOL_PACKET, PACKET_ADD_MEMBERSHIP, &promiscuous, sizeof promiscuous)) { perror(name); exit(1); }
  setsockopt(fd, SOL_SOCKET, SO_RCVBUFFORCE, &buffer, sizeof buffer);
  setsockopt(fd, SOL_SOCKET, SO_SNDBUFFORCE, &buffer, sizeof buffer);
  return fd;
}

static struct mmsghdr messages[BATCH];
static struct iovec parts[BATCH];

static void take(direction *d, uint64_t delay) {
  static uint8_t buffers[BATCH][FRAME];
  memset(messages, 0, sizeof messages);
  for (int k = 0; k < BATCH; k++) {
    parts[k] = (struct iovec){buffers[k], FRAME};
    messages[k].msg_hdr.msg_iov = &parts[k];
    messages[k].msg_hdr.msg_iovlen = 1;
  }
  int got = recvmmsg(d->in, messages, BATCH, MSG_DONTWAIT, NULL);
  uint64_t due = now() + delay;
  for (int k = 0; k < got; k++) {
    if (d->count == QUEUE) { d->overflowed++; continue; }
    frame *f = &d->queue[(d->head + d->count++) % QUEUE];
    f->due = due;
    f->length = messages[k].msg_len;
    memcpy(f->bytes, buffers[k], f->length);
  }
}

static void give(direction *d) {
  uint64_t time = now();
  while (d->count && d->queue[d->head].due <= time) {
    int ready = 0;
    memset(messages, 0, sizeof messages);
    while (ready < BATCH && (size_t)ready < d->count) {
      frame *f = &d->queue[(d->head + (size_t)ready) % QUEUE];
      if (f->due > time) break;
      parts[ready] = (struct iovec){f->bytes, f->length};
      messages[ready].msg_hdr.msg_iov = &parts[ready];
      messages[ready].msg_hdr.msg_iovlen = 1;
      ready++;
    }
    int gone = sendmmsg(d->out, messages, (unsigned)ready, 0);
    /* A frame that the interface refuses is lost, as on a wire. */
    if (gone <= 0) { d->refused++; gone = 1; } else d->relayed += (uint64_t)gone;
    d->head = (d->head + (size_t)gone) % QUEUE;
    d->count -= (size_t)gone;
  }
}

int main(int argc, char **argv) {
  if (argc != 4) { fprintf(stderr, "usage: link-emulator INTERFACE INTERFACE MICROSECONDS\n"); return 2; }
  char *end;
  uint64_t delay = strtoull(argv[3], &end, 10) * 1000;
  if (*end || end == argv[3]) { fprintf(stderr, "not a number of microseconds: %s\n", argv[3]); return 2; }
  int a = open_interface(argv[1]), b = open_interface(argv[2]);
  direction both[2] = {{.in = a, .out = b}, {.in = b, .out = a}};
  for (int i = 0; i < 2; i++)
    if (!(both[i].queue = malloc(QUEUE * sizeof(frame)))) { perror("malloc"); return 1; }
  struct sigaction action = {.sa_handler = on_signal};
  sigaction(SIGTERM, &action, NULL);
  sigaction(SIGINT, &action, NULL);
  puts("ready");
  fflush(stdout);
  while (!stop) {
    uint64_t time = now(), next = time + 100000000u;
    for (int i = 0; i < 2; i++)
      if (both[i].count && both[i].queue[both[i].head].due < next) next = both[i].queue[both[i].head].due;
    struct pollfd ready[2] = {{a, POLLIN, 0}, {b, POLLIN, 0}};
    struct timespec wait = {0, next > time ? (long)(next - time) : 0};
    if (ppoll(ready, 2, &wait, NULL) < 0 && errno != EINTR) { perror("ppoll"); return 1; }
    for (int i = 0; i < 2; i++) {
      if (ready[i].revents) take(&both[i], delay);
      give(&both[i]);
    }
  }
  for (int i = 0; i < 2; i++)
    printf("%s to %s: relayed %" PRIu64 ", overflowed %" PRIu64 ", refused %" PRIu64 "\n", argv[1 + i], argv[2 - i],
           both[i].relayed, both[i].overflowed, both[i].refused);
  return 0;
}
