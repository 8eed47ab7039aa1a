//! Nothing: the test is that of the jobs.
