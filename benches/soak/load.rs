//! The load: Foos are created, some are changed, and the oldest are deleted.

use std::{cell::Cell, time::Duration};

use futures::{StreamExt, TryStreamExt, stream, stream::FuturesUnordered};
use tokio::time::{Instant, sleep_until};

use crate::foos::Foos;

/// The steps that are under way at once, flat out. In each one Foo is created.
const AT_ONCE: usize = 64;
/// The most steps that are under way in the paced load, which otherwise goes on while the host is
/// late, as after a swap.
const AT_MOST: usize = 256;
/// The time that the paced load makes up for when it is late. After a longer time, as in an outage,
/// it goes on at its pace.
const LATE: Duration = Duration::from_secs(1);

/// Creates Foos and deletes the oldest.
pub struct Load<'a> {
    foos: &'a Foos,
    /// The number of Foos that are kept.
    keep: Cell<usize>,
    /// The number of the oldest Foo that was not deleted.
    oldest: Cell<usize>,
}

impl<'a> Load<'a> {
    pub fn new(foos: &'a Foos, keep: usize) -> Self {
        Self {
            foos,
            keep: Cell::new(keep),
            oldest: Cell::new(0),
        }
    }

    /// Sets the number of Foos that are kept.
    pub fn keep(&self, keep: usize) {
        self.keep.set(keep);
    }

    /// Makes steps, [`AT_ONCE`] at a time, and returns how many end in a second. Of three parts of
    /// `count` steps the last one counts: in the first nothing is deleted yet, in the second no
    /// Deployments.
    ///
    /// # Errors
    /// Returns an error if a step fails.
    pub async fn flat_out(&self, count: usize) -> anyhow::Result<f64> {
        let mut steps = stream::iter(0..count * 3)
            .map(|_| self.step())
            .buffer_unordered(AT_ONCE);
        let mut ended = 0;
        let mut began = Instant::now();
        while steps.try_next().await?.is_some() {
            ended += 1;
            if ended == count * 2 {
                began = Instant::now();
            }
        }
        Ok(count as f64 / began.elapsed().as_secs_f64())
    }

    /// Makes steps at a rate for this time, [`AT_MOST`] at a time.
    ///
    /// # Errors
    /// Returns an error if a step fails.
    pub async fn paced(&self, rate: f64, time: Duration) -> anyhow::Result<()> {
        let pace = Duration::from_secs_f64(1.0 / rate);
        let mut due = Instant::now();
        let end = due + time;
        let mut steps = FuturesUnordered::new();
        while due < end {
            tokio::select! {
                Some(step) = steps.next(), if !steps.is_empty() => step?,
                () = sleep_until(due), if steps.len() < AT_MOST => {
                    steps.push(self.step());
                    due += pace;
                    if due.elapsed() > LATE {
                        due = Instant::now();
                    }
                }
            }
        }
        steps.try_collect().await
    }

    /// Creates a Foo, changes another or its Deployment in every fifth step, and deletes the oldest
    /// beyond those that are kept.
    async fn step(&self) -> anyhow::Result<()> {
        let number = self.foos.create().await?;
        let middle = (self.oldest.get() + number) / 2;
        if middle >= self.oldest.get() + AT_ONCE && self.foos.is_deployed(middle) {
            match number % 10 {
                0 => self.foos.scale(middle).await?,
                5 => self.foos.make_available(middle).await?,
                _ => {}
            }
        }
        while self.oldest.get() + self.keep.get() <= number {
            let oldest = self.oldest.replace(self.oldest.get() + 1);
            self.foos.delete(oldest).await?;
        }
        Ok(())
    }
}
