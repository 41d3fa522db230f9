// SPDX-License-Identifier: GPL-2.0-only
import java.io.RandomAccessFile;
import java.nio.MappedByteBuffer;
import java.nio.channels.FileChannel;

/** Writes back a mapped file from three methods deep, while a thread of its own spins; names its code amid that. */
public class Storm {
	static final int PAGES = 16;
	static volatile boolean isOver;

	static void stormInner(MappedByteBuffer area, int round) {
		for (int page = 0; page < PAGES; page++)
			area.put(page * 4096, (byte) round);
		area.force();
	}

	static void stormMiddle(MappedByteBuffer area, int round) {
		stormInner(area, round);
	}

	static void stormOuter(MappedByteBuffer area, int rounds) {
		for (int round = 0; round < rounds; round++)
			stormMiddle(area, round);
	}

	public static void main(String[] arguments) throws Exception {
		int rounds = Integer.parseInt(arguments[0]);
		Thread spinner = new Thread(() -> { while (!isOver) { } });
		spinner.setDaemon(true);
		spinner.start();
		try (RandomAccessFile file = new RandomAccessFile(arguments[1], "rw")) {
			file.setLength(PAGES * 4096);
			MappedByteBuffer area = file.getChannel().map(FileChannel.MapMode.READ_WRITE, 0, PAGES * 4096);
			stormOuter(area, rounds);
			String pid = Long.toString(ProcessHandle.current().pid());
			new ProcessBuilder("jcmd", pid, "Compiler.perfmap").start().waitFor();
			stormOuter(area, rounds);
			// The observer looks for names once a second.
			Thread.sleep(3000);
		}
		isOver = true;
	}
}
