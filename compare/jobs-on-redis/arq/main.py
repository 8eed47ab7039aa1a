"""arq as a contender: the same commands as in `protocol/src/lib.rs`.

It inserts jobs one by one, in three round trips each; 50 go in side by side here. A worker runs 100 at
once and looks every 10 ms, where it would every 500. Results are not kept. Its lease is a key that lives
for the longest run and ten seconds more, and is never renewed: the longest run is the lease here.
"""

import asyncio
import logging
import sys
import time
from datetime import datetime, timedelta, timezone

from arq import create_pool, func
from arq.connections import RedisSettings
from arq.constants import default_queue_name
from arq.worker import Worker

CONCURRENCY = 100
SIDE_BY_SIDE = 50
POLL_SECONDS = 0.01
STRIDE = 7919
TEXT = 'close the order unless it has been paid for -----'
EPOCH = datetime(1970, 1, 1, tzinfo=timezone.utc)

words = dict(word.split('=', 1) for word in sys.argv[1:])
settings = RedisSettings.from_dsn(words['url'])
lease, hold = int(words['lease_ms']) / 1000, int(words['hold_ms']) / 1000
started = []
# A task that nobody holds may be collected.
background = []


async def close_order(_context, job):
    started.append((job['number'], job['due'], time.time_ns()))
    if hold > 0:
        await asyncio.sleep(hold)


def job(number, due):
    return {'number': number, 'due': due or time.time_ns() // 1000, 'text': TEXT}


async def insert_one(pool, number, due):
    defer = EPOCH + timedelta(microseconds=due) if due else None
    await pool.enqueue_job('close_order', job(number, due), _defer_until=defer)


async def insert(pool, first, count, bulk, start, spread):
    for begin in range(0, count, bulk):
        waiting = iter(range(begin, min(count, begin + bulk)))

        async def caller():
            for i in waiting:
                due = (start + STRIDE * i % count * spread // count) // 1000 * 1000
                await insert_one(pool, first + i, due)

        await asyncio.gather(*(caller() for _ in range(SIDE_BY_SIDE)))


async def act(pool, line):
    verb, *numbers = line.split()
    numbers = [int(number) for number in numbers]
    start = time.perf_counter_ns()
    match verb:
        case 'insert':
            await insert(pool, *numbers)
            return f'inserted {time.perf_counter_ns() - start}\n'
        case 'one':
            first, count, pause = numbers
            for i in range(count):
                await insert_one(pool, first + i, 0)
                await asyncio.sleep(pause / 1e6)
            return f'inserted {time.perf_counter_ns() - start}\n'
        case 'started':
            return f'started {len(started)}\n'
        case 'unfinished':
            return f'unfinished {await pool.zcard(default_queue_name)}\n'
        case 'starts':
            return ''.join(f'{n} {due} {at}\n' for n, due, at in started) + 'end\n'
    return f'error what is `{line}`?\n'


def say(text):
    sys.stdout.write(text)
    sys.stdout.flush()


async def main():
    logging.disable(logging.CRITICAL)
    pool = await create_pool(settings)
    if words['role'] == 'work':
        worker = Worker(
            [func(close_order, name='close_order')],
            redis_settings=settings,
            max_jobs=CONCURRENCY,
            poll_delay=POLL_SECONDS,
            job_timeout=lease,
            keep_result=0,
            handle_signals=False,
        )
        background.append(asyncio.create_task(worker.async_run()))
    say('ready\n')
    loop = asyncio.get_running_loop()
    while line := (await loop.run_in_executor(None, sys.stdin.readline)).strip():
        try:
            answer = await act(pool, line)
        except Exception as error:  # The driver is told, and goes on.
            answer = f'error {error}\n'.replace('\n', ' ').strip() + '\n'
        say(answer)


asyncio.run(main())
