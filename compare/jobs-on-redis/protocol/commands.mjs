// The common part of the contenders in JavaScript: the driver's commands, and the times at which jobs started.
// `src/lib.rs` says what the commands are.

import { createInterface } from 'node:readline';
import { createRequire } from 'node:module';
import { pathToFileURL } from 'node:url';
import { setTimeout as sleep } from 'node:timers/promises';

const STRIDE = 7919;
const TEXT = 'close the order unless it has been paid for -----';

/** The packages lie below the target directory, where the driver starts a contender. */
export const require = createRequire(pathToFileURL(process.cwd() + '/'));

/** The words of the command line. */
export const words = Object.fromEntries(
  process.argv.slice(2).map((word) => word.split(/=(.*)/s)),
);

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

const started = [];

/** Notes that the handler of a job has started. */
export function ran(payload) {
  started.push([payload.number, payload.due, nowNs()]);
}

/** A job, which is due at a time in µs. As soon as possible, if that is 0. */
function job(number, due) {
  const payload = { number, due: due === 0 ? Number(nowNs() / 1000n) : due, text: TEXT };
  return { isNow: due === 0, payload };
}

async function insert(insertMany, first, count, size, from, spread) {
  for (let begin = 0; begin < count; begin += size) {
    const jobs = [];
    for (let i = begin; i < Math.min(count, begin + size); i += 1) {
      const due = from + Math.floor((((STRIDE * i) % count) * spread) / count);
      jobs.push(job(first + i, from === 0 ? 0 : Math.floor(due / 1000) * 1000));
    }
    await insertMany(jobs);
  }
}

async function act(contender, line) {
  const [verb, ...rest] = line.split(' ');
  const numbers = rest.map(Number);
  const start = process.hrtime.bigint();
  switch (verb) {
    case 'insert':
      await insert(contender.insertMany, ...numbers);
      return `inserted ${process.hrtime.bigint() - start}\n`;
    case 'one':
      for (let i = 0; i < numbers[1]; i += 1) {
        await contender.insertOne(job(numbers[0] + i, 0));
        await sleep(numbers[2] / 1000);
      }
      return `inserted ${process.hrtime.bigint() - start}\n`;
    case 'started':
      return `started ${started.length}\n`;
    case 'unfinished':
      return `unfinished ${await contender.unfinished()}\n`;
    case 'starts':
      return started.map((run) => run.join(' ') + '\n').join('') + 'end\n';
    default:
      return `error what is \`${line}\`?\n`;
  }
}

/** Does the driver's commands until the driver closes the input: with `insertMany`, `insertOne`, `unfinished`. */
export async function serve(contender) {
  process.stdout.write('ready\n');
  for await (const line of createInterface({ input: process.stdin })) {
    let answer;
    try {
      answer = await act(contender, line);
    } catch (error) {
      answer = `error ${String(error.message).replaceAll('\n', ' ')}\n`;
    }
    process.stdout.write(answer);
  }
  process.exit(0);
}
