/* Messages to a group, in C: ./talk listen 239.1.2.3:4567 on each listener, then ./talk say 239.1.2.3:4567 2 hello
 * cc -I include crates/carillon-c/examples/talk.c -L target/release -lcarillon_c -o talk */
#include <carillon.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static int failed(void) {
    fprintf(stderr, "%s\n", carillon_error());
    return 1;
}

int main(int count, char **args) {
    if (count == 3 && strcmp(args[1], "listen") == 0) {
        carillon_listener *listener = carillon_listen(args[2], NULL, NULL);
        carillon_session *session = listener ? carillon_accept(listener) : NULL;
        static char text[65536];
        int64_t length = CARILLON_FAILED;
        while (session && (length = carillon_recv(session, text, sizeof text)) >= 0)
            printf("%s: %.*s\n", carillon_from(session), (int)length, text);
        int result = length == CARILLON_END ? 0 : failed();
        carillon_session_free(session);
        carillon_listener_free(listener);
        return result;
    }
    if (count > 3 && strcmp(args[1], "say") == 0) {
        carillon_sender *sender = carillon_connect(args[2], NULL, NULL, "pgm", strtoul(args[3], NULL, 10));
        for (int i = 4; sender && i < count; i++)
            if (carillon_send(sender, args[i], strlen(args[i])) != 0)
                break;
        int without = sender ? carillon_close(sender) : CARILLON_FAILED;
        return without < 0 ? failed() : without > 0;
    }
    fprintf(stderr, "listen GROUP, or say GROUP LISTENERS WORDS\n");
    return 2;
}
