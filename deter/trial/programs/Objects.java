// SPDX-License-Identifier: GPL-2.0-only
// Two threads that keep some arrays of many that they make. Objects ROUNDS; prints each round's sum.
import java.util.concurrent.CyclicBarrier;

public class Objects {
    static final int KEPT = 4096;
    static final int MADE = 6000;
    static final int BYTES = 32 << 10;
    static final long[] sums = new long[2];

    public static void main(String[] words) throws Exception {
        int rounds = Integer.parseInt(words[0]);
        CyclicBarrier barrier = new CyclicBarrier(2, () -> System.out.println("round " + (sums[0] + sums[1])));
        Thread[] threads = new Thread[2];
        for (int own = 0; own < 2; own++) {
            int index = own;
            threads[own] = new Thread(() -> work(index, rounds, barrier));
            threads[own].start();
        }
        for (Thread thread : threads) {
            thread.join();
        }
    }

    static void work(int own, int rounds, CyclicBarrier barrier) {
        byte[][] kept = new byte[KEPT][];
        try {
            for (int round = 0; round < rounds; round++) {
                long sum = 0;
                for (int i = 0; i < MADE; i++) {
                    byte[] made = new byte[BYTES];
                    made[i % BYTES] = (byte) (i + own + round);
                    byte[] old = kept[i % KEPT];
                    sum += old == null ? 0 : old[(i + KEPT) % BYTES] + made[i % BYTES];
                    kept[i % KEPT] = made;
                }
                sums[own] = sum;
                barrier.await();
            }
        } catch (Exception error) {
            throw new RuntimeException(error);
        }
    }
}
