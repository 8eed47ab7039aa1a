// BullMQ as a contender: the same commands as in `protocol/src/lib.rs`.
//
// Jobs go in by `addBulk`, and are removed when they complete. A worker runs 100 at once: its jobs wait
// for the server, not for the processor. A delay is counted from `timestamp`, so the store has the asked
// millisecond. Its lock renews itself at half of its time; a lost one is found by a sweep, which goes
// round as often as the lock would be renewed.

import { setTimeout as sleep } from 'node:timers/promises';

import { ran, require, serve, words } from '../protocol/commands.mjs';

const CONCURRENCY = 100;
const QUEUE = 'orders';
const NAME = 'close-order';

const { Queue, Worker } = require('bullmq');

const url = new URL(words.url);
const connection = { host: url.hostname, port: Number(url.port) };
const [lease, hold] = [Number(words.lease_ms), Number(words.hold_ms)];

const queue = new Queue(QUEUE, { connection, defaultJobOptions: { removeOnComplete: true } });
await queue.waitUntilReady();

async function run(job) {
  ran(job.data);
  if (hold > 0) await sleep(hold);
}

if (words.role === 'work') {
  const worker = new Worker(QUEUE, run, {
    connection,
    concurrency: CONCURRENCY,
    lockDuration: lease,
    stalledInterval: Math.max(1, lease / 2),
    removeOnComplete: { count: 0 },
    ...(words.limited === '1' ? { limiter: { max: 1e9, duration: 1000 } } : {}),
  });
  worker.on('error', (error) => console.error(`bullmq: ${error.message}`));
  await worker.waitUntilReady();
}

function toInsert({ isNow, payload }) {
  if (isNow) return { name: NAME, data: payload };
  const timestamp = Date.now();
  const opts = { timestamp, delay: Math.max(0, payload.due / 1000 - timestamp) };
  return { name: NAME, data: payload, opts };
}

async function unfinished() {
  const states = ['wait', 'active', 'delayed', 'prioritized', 'failed'];
  const counts = await queue.getJobCounts(...states);
  return Object.values(counts).reduce((sum, count) => sum + count, 0);
}

await serve({
  insertMany: (jobs) => queue.addBulk(jobs.map(toInsert)),
  insertOne: ({ payload }) => queue.add(NAME, payload),
  unfinished,
});
