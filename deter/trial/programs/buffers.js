// SPDX-License-Identifier: GPL-2.0-only
// Objects and buffers that are made and dropped, in two threads. buffers.js ROUNDS; prints each thread's sum.
const { Worker, isMainThread, parentPort, workerData } = require("node:worker_threads");

function work(rounds) {
  let sum = 0;
  for (let round = 0; round < rounds; round++) {
    const rows = [];
    for (let i = 0; i < 20000; i++) {
      rows.push({ key: round + i, text: "row " + i, list: [i, i + 1, i + 2] });
    }
    const buffers = [];
    for (let i = 0; i < 40; i++) {
      buffers.push(Buffer.alloc(256 << 10, i));
    }
    sum += rows.reduce((all, row) => all + row.key + row.text.length + row.list[1], 0);
    sum += buffers.reduce((all, buffer) => all + buffer[1000], 0);
  }
  return sum;
}

if (isMainThread) {
  const rounds = Number(process.argv[2]);
  const worker = new Worker(__filename, { workerData: rounds });
  worker.on("message", (sum) => console.log("worker", sum));
  console.log("main", work(rounds));
} else {
  parentPort.postMessage(work(workerData));
}
