// BullMQ as a contender: the same commands as in `protocol/src/lib.rs`.
//
// Jobs go in by `addBulk`, and are removed when they complete. A worker runs 100 at once: its jobs wait
// for the server, not for the processor. A delay is counted from `timestamp`, so the store has the asked
// millisecond. Its lock renews itself at half of its time; a lost one is found by a sweep, which goes
// round as often as the lock would be renewed.

import { createInterface } from 'node:readline';
import { createRequire } from 'node:module';
import { pathToFileURL } from 'node:url';
import { setTimeout as sleep } from 'node:timers/promises';

const CONCURRENCY = 100;
const QUEUE = 'orders';
const STRIDE = 7919;
const TEXT = 'close the order unless it has been paid for -----';

// The packages lie below the target directory, where the driver starts this program.
const require = createRequire(pathToFileURL(process.cwd() + '/'));
const { Queue, Worker } = require('bullmq');

/** The wall clock in ns: `Date.now` has whole milliseconds, so its edges set the fine clock. */
const offset = (() => {
  let most = -(2n ** 62n);
  for (let edge = 0; edge < 5; edge += 1) {
    const before = Date.now();
    let now = before;
    while (now === before) now = Date.now();
    const at = BigInt(now) * 1_000_000n - process.hrtime.bigint();
    if (at > most) most = at;
  }
  return most;
})();
const nowNs = () => process.hrtime.bigint() + offset;
const nowUs = () => Number(nowNs() / 1000n);

const words = Object.fromEntries(process.argv.slice(2).map((word) => word.split(/=(.*)/s)));
const url = new URL(words.url);
const connection = { host: url.hostname, port: Number(url.port) };
const [lease, hold] = [Number(words.lease_ms), Number(words.hold_ms)];
const started = [];

const queue = new Queue(QUEUE, { connection, defaultJobOptions: { removeOnComplete: true } });
await queue.waitUntilReady();

async function run(job) {
  started.push([job.data.number, job.data.due, nowNs()]);
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

/** Job `number` at a time in µs, or as soon as possible. */
function bulk(number, due) {
  const name = 'close-order';
  if (due === 0) return { name, data: { number, due: nowUs(), text: TEXT } };
  const timestamp = Date.now();
  const opts = { timestamp, delay: Math.max(0, due / 1000 - timestamp) };
  return { name, data: { number, due, text: TEXT }, opts };
}

async function insert(first, count, size, from, spread) {
  for (let begin = 0; begin < count; begin += size) {
    const jobs = [];
    for (let i = begin; i < Math.min(count, begin + size); i += 1) {
      const due = from + Math.floor((((STRIDE * i) % count) * spread) / count);
      jobs.push(bulk(first + i, from === 0 ? 0 : Math.floor(due / 1000) * 1000));
    }
    await queue.addBulk(jobs);
  }
}

async function unfinished() {
  const states = ['wait', 'active', 'delayed', 'prioritized', 'failed'];
  const counts = await queue.getJobCounts(...states);
  return Object.values(counts).reduce((sum, count) => sum + count, 0);
}

async function act(line) {
  const [verb, ...rest] = line.split(' ');
  const numbers = rest.map(Number);
  const start = process.hrtime.bigint();
  switch (verb) {
    case 'insert':
      await insert(...numbers);
      return `inserted ${process.hrtime.bigint() - start}\n`;
    case 'one':
      for (let i = 0; i < numbers[1]; i += 1) {
        const { name, data } = bulk(numbers[0] + i, 0);
        await queue.add(name, data);
        await sleep(numbers[2] / 1000);
      }
      return `inserted ${process.hrtime.bigint() - start}\n`;
    case 'started':
      return `started ${started.length}\n`;
    case 'unfinished':
      return `unfinished ${await unfinished()}\n`;
    case 'starts':
      return started.map((run) => run.join(' ') + '\n').join('') + 'end\n';
    default:
      return `error what is \`${line}\`?\n`;
  }
}

process.stdout.write('ready\n');
for await (const line of createInterface({ input: process.stdin })) {
  let answer;
  try {
    answer = await act(line);
  } catch (error) {
    answer = `error ${String(error.message).replaceAll('\n', ' ')}\n`;
  }
  process.stdout.write(answer);
}
process.exit(0);
