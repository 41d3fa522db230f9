// SPDX-License-Identifier: GPL-2.0-only

/** Fills the heap and lets all of it go, again and again, so that the collector gives memory back; a thread spins. */
public class Uncommit {
	static volatile boolean isOver;
	static volatile Object kept;

	public static void main(String[] arguments) throws Exception {
		Thread spinner = new Thread(() -> { while (!isOver) { } });
		spinner.setDaemon(true);
		spinner.start();
		for (int round = 0; round < 8; round++) {
			byte[][] blocks = new byte[2000][];
			for (int i = 0; i < blocks.length; i++)
				blocks[i] = new byte[100 << 10];
			kept = blocks;
			kept = blocks = null;
			System.gc();
			Thread.sleep(400);
		}
		isOver = true;
	}
}
