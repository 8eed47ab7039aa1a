// graphile-worker as a contender, on PostgreSQL: the same commands as in `protocol/src/lib.rs`.
//
// It has the settings of its page about performance: 24 jobs at once, and ends that are written together. The local
// queue of that page stays off, because it runs several jobs of a named queue at once (graphile/worker#621).

import { ran, require, serve, words } from '../protocol/commands.mjs';

const CONCURRENCY = 24;
const TASK = 'close-order';

const { makeWorkerUtils, run, Logger } = require('graphile-worker');

const quiet = new Logger(() => () => {});
const partitions = Number(words.partitions);
const options = { connectionString: words.url, logger: quiet };

const utils = await makeWorkerUtils(options);
await utils.migrate();

if (words.role === 'work') {
  const runner = await run({
    ...options,
    concurrency: CONCURRENCY,
    maxPoolSize: CONCURRENCY + 1,
    noHandleSignals: true,
    preset: { worker: { completeJobBatchDelay: 0, failJobBatchDelay: 0 } },
    taskList: { [TASK]: async (payload) => ran(payload) },
  });
  runner.promise.catch((error) => console.error(`graphile: ${error.message}`));
}

function toInsert({ isNow, payload }) {
  const job = { identifier: TASK, payload };
  if (!isNow) job.runAt = new Date(payload.due / 1000);
  if (partitions > 0) job.queueName = `customer-${payload.number % partitions}`;
  return job;
}

const insertMany = (jobs) => utils.addJobs(jobs.map(toInsert));

await serve({
  insertMany,
  insertOne: (job) => insertMany([job]),
  unfinished: () =>
    utils.withPgClient(async (client) => {
      const { rows } = await client.query('select count(*)::int as jobs from graphile_worker.jobs');
      return rows[0].jobs;
    }),
});
