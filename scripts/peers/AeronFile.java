import io.aeron.Aeron;
import io.aeron.ExclusivePublication;
import io.aeron.Publication;
import io.aeron.Subscription;
import io.aeron.driver.MediaDriver;
import io.aeron.driver.ThreadingMode;
import io.aeron.logbuffer.FragmentHandler;
import java.io.IOException;
import java.io.UncheckedIOException;
import java.nio.ByteBuffer;
import java.nio.MappedByteBuffer;
import java.nio.channels.FileChannel;
import java.nio.file.Path;
import java.nio.file.StandardOpenOption;
import java.util.HashMap;
import java.util.Map;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.locks.LockSupport;
import org.agrona.concurrent.BackoffIdleStrategy;
import org.agrona.concurrent.IdleStrategy;
import org.agrona.concurrent.UnsafeBuffer;

/**
 * A file by Aeron over UDP multicast, with the media driver inside.
 *
 * <pre>
 *     AeronFile send FILE DIRECTORY ADDRESS RECEIVERS [KEY=VALUE...]
 *     AeronFile recv FILE DIRECTORY ADDRESS RECEIVERS [KEY=VALUE...]
 * </pre>
 *
 * DIRECTORY is the driver's, ADDRESS the interface's. The first message says how long the file is; the sender stays
 * for repairs until it is stopped. A receiver says READY, and when it has the whole file DONE with the time of the
 * monotonic clock; the sender says START before it connects, a receiver BEGIN when it has the first message. With
 * these two goes the processor time until then. Keys: nak and linger (milliseconds: the most that a NAK is delayed, and
 * how long a repair is not repeated), window (bytes), resend (gaps that are repaired at a time), rate (bytes a second).
 */
public final class AeronFile {
    private static final int STREAM = 10;
    private static volatile boolean stopping;

    private static double now() {
        return System.nanoTime() / 1e9;
    }

    private static void say(final String what) {
        final double used = ProcessHandle.current().info().totalCpuDuration().map(d -> d.toNanos() / 1e9).orElse(0.0);
        System.out.printf("%s %.6f %.3f%n", what, now(), used);
    }

    private static IdleStrategy idle() {
        return new BackoffIdleStrategy(10, 10, 10_000, 200_000);
    }

    public static void main(final String[] args) {
        final int receivers = Integer.parseInt(args[4]);
        final Map<String, Double> settings = new HashMap<>();
        for (int i = 5; i < args.length; i++) {
            final String[] pair = args[i].split("=");
            settings.put(pair[0], Double.valueOf(pair[1]));
        }
        final Thread main = Thread.currentThread();
        Runtime.getRuntime().addShutdownHook(new Thread(() -> {
            stopping = true;
            try {
                main.join(2000);
            } catch (final InterruptedException ignored) {
                Thread.currentThread().interrupt();
            }
        }));
        final int window = settings.getOrDefault("window", 2097152.0).intValue();
        final MediaDriver.Context context = new MediaDriver.Context()
            .aeronDirectoryName(args[2]).dirDeleteOnStart(true).dirDeleteOnShutdown(true)
            .threadingMode(ThreadingMode.SHARED).sharedIdleStrategy(idle())
            .termBufferSparseFile(true).socketRcvbufLength(Math.max(window, 4 << 20)).socketSndbufLength(4 << 20)
            .initialWindowLength(window).maxResend(settings.getOrDefault("resend", 16.0).intValue())
            .nakMulticastMaxBackoffNs((long)(settings.getOrDefault("nak", 10.0) * 1e6))
            .retransmitUnicastLingerNs((long)(settings.getOrDefault("linger", 10.0) * 1e6))
            .nakMulticastGroupSize(Math.max(receivers, 2));
        final String channel = "aeron:udp?endpoint=239.9.9.9:40456|ttl=1|interface=" + args[3] + "/32";
        boolean whole = false;
        try (MediaDriver ignored = MediaDriver.launch(context);
            Aeron aeron = Aeron.connect(new Aeron.Context().aeronDirectoryName(args[2]))) {
            if (args[0].equals("send")) {
                // Flow control by the slowest, and by all of them from the start.
                final String sending = channel + "|term-length=16m|mtu=1408|fc=min,g:/" + receivers;
                whole = send(aeron, sending, Path.of(args[1]), settings.getOrDefault("rate", 0.0));
            } else {
                whole = receive(aeron, channel, Path.of(args[1]));
            }
        } catch (final IOException problem) {
            System.err.println(problem);
        }
        Runtime.getRuntime().halt(whole ? 0 : 1);
    }

    private static boolean send(final Aeron aeron, final String channel, final Path path, final double rate)
        throws IOException {
        final IdleStrategy idle = idle();
        say("START");
        try (FileChannel file = FileChannel.open(path);
            ExclusivePublication publication = aeron.addExclusivePublication(channel, STREAM)) {
            final long size = file.size();
            final MappedByteBuffer bytes = file.map(FileChannel.MapMode.READ_ONLY, 0, size);
            final UnsafeBuffer body = new UnsafeBuffer(bytes);
            final UnsafeBuffer head = new UnsafeBuffer(new byte[8]);
            head.putLong(0, size);
            while (!publication.isConnected() && !stopping) {
                idle.idle();
            }
            final double start = now();
            long sent = 0;
            boolean told = false;
            while (sent < size && !stopping) {
                while (rate > 0 && sent > (now() - start) * rate) {
                    LockSupport.parkNanos(100_000);
                }
                final int piece = (int)Math.min(publication.maxPayloadLength(), size - sent);
                final long result = told ? publication.offer(body, (int)sent, piece) : publication.offer(head);
                if (result > 0) {
                    sent += told ? piece : 0;
                    told = true;
                    idle.reset();
                } else if (result == Publication.CLOSED || result == Publication.MAX_POSITION_EXCEEDED) {
                    return false;
                } else {
                    idle.idle();
                }
            }
            while (!stopping) {
                LockSupport.parkNanos(TimeUnit.MILLISECONDS.toNanos(10));
            }
            return sent >= size;
        }
    }

    private static boolean receive(final Aeron aeron, final String channel, final Path path) throws IOException {
        final IdleStrategy idle = idle();
        final ByteBuffer gathered = ByteBuffer.allocateDirect(1 << 20);
        final long[] place = {-1, 0};
        try (Subscription subscription = aeron.addSubscription(channel, STREAM);
            FileChannel file = FileChannel.open(path, StandardOpenOption.CREATE, StandardOpenOption.WRITE)) {
            final FragmentHandler take = (buffer, offset, length, header) -> {
                if (place[0] < 0) {
                    place[0] = buffer.getLong(offset);
                    say("BEGIN");
                    return;
                }
                if (gathered.remaining() < length) {
                    write(gathered, file);
                }
                buffer.getBytes(offset, gathered, length);
                place[1] += length;
            };
            say("READY");
            while (!stopping && (place[0] < 0 || place[1] < place[0])) {
                idle.idle(subscription.poll(take, 64));
            }
            write(gathered, file);
            if (place[0] >= 0 && place[1] >= place[0]) {
                System.out.printf("DONE %.6f%n", now());
                return true;
            }
            return false;
        }
    }

    private static void write(final ByteBuffer gathered, final FileChannel file) {
        try {
            gathered.flip();
            file.write(gathered);
            gathered.clear();
        } catch (final IOException problem) {
            throw new UncheckedIOException(problem);
        }
    }
}
