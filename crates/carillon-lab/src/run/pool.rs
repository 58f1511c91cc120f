//! Threads that simulate the parts of one world.

use std::sync::OnceLock;

use carillon_run::run::{Task, Workers};
use rayon_core::{ThreadPool, ThreadPoolBuilder};

/// Pool of threads, started at the first use. Without it, if the system refuses the threads, the caller does the work.
#[derive(Debug)]
pub(super) struct Pool {
    number: usize,
    threads: OnceLock<Option<ThreadPool>>,
}

impl Pool {
    pub(super) fn new(number: usize) -> Self {
        Pool { number, threads: OnceLock::new() }
    }
}

impl Workers for Pool {
    fn number(&self) -> usize {
        self.number
    }

    fn complete(&self, tasks: Vec<Task<'_>>) {
        let threads =
            self.threads.get_or_init(|| ThreadPoolBuilder::new().num_threads(self.number).build().ok());
        match threads {
            Some(threads) => threads.in_place_scope(|scope| {
                for task in tasks {
                    scope.spawn(|_| task());
                }
            }),
            None => tasks.into_iter().for_each(|task| task()),
        }
    }
}
