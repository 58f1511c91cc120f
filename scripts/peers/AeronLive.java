import io.aeron.Aeron;
import io.aeron.ExclusivePublication;
import io.aeron.Publication;
import io.aeron.Subscription;
import io.aeron.driver.MediaDriver;
import io.aeron.driver.ThreadingMode;
import io.aeron.logbuffer.FragmentHandler;
import java.nio.ByteOrder;
import java.util.Arrays;
import java.util.concurrent.locks.LockSupport;
import org.agrona.concurrent.BackoffIdleStrategy;
import org.agrona.concurrent.IdleStrategy;
import org.agrona.concurrent.UnsafeBuffer;

/**
 * Live messages of 100 bytes by Aeron over UDP multicast, with the media driver inside.
 *
 * <pre>
 *     AeronLive send DIRECTORY ADDRESS RECEIVERS RATE SECONDS
 *     AeronLive recv DIRECTORY ADDRESS RECEIVERS
 * </pre>
 *
 * Each message has when it was due by the monotonic clock, its number, and how many there are. The sender stays for
 * repairs until it is stopped. A receiver says READY, and DONE with how late messages came when it has the last one or
 * nothing comes for five seconds.
 */
public final class AeronLive {
    private static final int STREAM = 10;
    private static final int MESSAGE = 100;
    private static final String CHANNEL = "aeron:udp?endpoint=239.9.9.9:40456|ttl=1|interface=";

    private static long count;
    private static long heard;
    private static boolean last;
    private static long[] ages = {};

    private static IdleStrategy idle() {
        return new BackoffIdleStrategy(10, 10, 1_000, 50_000);
    }

    public static void main(final String[] args) {
        final int receivers = Integer.parseInt(args[3]);
        final MediaDriver.Context context = new MediaDriver.Context()
            .aeronDirectoryName(args[1]).dirDeleteOnStart(true).dirDeleteOnShutdown(true)
            .threadingMode(ThreadingMode.SHARED).sharedIdleStrategy(idle())
            .termBufferSparseFile(true).socketRcvbufLength(4 << 20).socketSndbufLength(4 << 20)
            .initialWindowLength(2 << 20).maxResend(256)
            .nakMulticastMaxBackoffNs(200_000).retransmitUnicastLingerNs(500_000)
            .nakMulticastGroupSize(Math.max(receivers, 2));
        try (MediaDriver driver = MediaDriver.launch(context);
            Aeron aeron = Aeron.connect(new Aeron.Context().aeronDirectoryName(driver.aeronDirectoryName()))) {
            if (args[0].equals("send")) {
                send(aeron, args[2], receivers, Double.parseDouble(args[4]), Double.parseDouble(args[5]));
            } else {
                receive(aeron, args[2]);
            }
        }
        Runtime.getRuntime().halt(0);
    }

    private static void send(
        final Aeron aeron, final String address, final int receivers, final double rate, final double seconds) {
        final String channel = CHANNEL + address + "/32|term-length=16m|mtu=1408|fc=min,g:/" + receivers;
        final UnsafeBuffer message = new UnsafeBuffer(new byte[MESSAGE]);
        final long total = (long)(rate * seconds);
        try (ExclusivePublication publication = aeron.addExclusivePublication(channel, STREAM)) {
            while (!publication.isConnected()) {
                LockSupport.parkNanos(1_000_000);
            }
            message.putLong(16, total, ByteOrder.LITTLE_ENDIAN);
            final long begin = System.nanoTime();
            for (long number = 0; number < total; number++) {
                final long due = begin + (long)(number / rate * 1e9);
                for (long early = due - System.nanoTime(); early > 0; early = due - System.nanoTime()) {
                    LockSupport.parkNanos(early);
                }
                message.putLong(0, due, ByteOrder.LITTLE_ENDIAN);
                message.putLong(8, number, ByteOrder.LITTLE_ENDIAN);
                while (publication.offer(message) < 0) {
                    if (publication.isClosed()) {
                        return;
                    }
                    Thread.onSpinWait();
                }
            }
            while (true) {
                LockSupport.parkNanos(1_000_000_000L);
            }
        }
    }

    private static void receive(final Aeron aeron, final String address) {
        final IdleStrategy idle = idle();
        final FragmentHandler take = (buffer, offset, length, header) -> {
            heard = System.nanoTime();
            final long total = buffer.getLong(offset + 16, ByteOrder.LITTLE_ENDIAN);
            if (ages.length == 0) {
                ages = new long[(int)total];
            }
            ages[(int)count++] = heard - buffer.getLong(offset, ByteOrder.LITTLE_ENDIAN);
            last = buffer.getLong(offset + 8, ByteOrder.LITTLE_ENDIAN) + 1 == total;
        };
        try (Subscription subscription = aeron.addSubscription(CHANNEL + address + "/32", STREAM)) {
            System.out.println("READY");
            while (!last && (heard == 0 || System.nanoTime() - heard < 5_000_000_000L)) {
                idle.idle(subscription.poll(take, 64));
            }
        }
        final long[] sorted = Arrays.copyOf(ages, (int)count);
        Arrays.sort(sorted);
        System.out.printf("DONE %d %d", count, ages.length);
        for (final double share : new double[] {0.5, 0.99, 0.999}) {
            System.out.printf(" %.1f", at(sorted, share));
        }
        System.out.println();
    }

    private static double at(final long[] sorted, final double share) {
        return sorted.length == 0 ? 0 : sorted[(int)(share * (sorted.length - 1))] / 1e3;
    }
}
