//! The rates of plugins: differences of counters between two scrapes of each replica. No I/O.
//!
//! A counter that is lower than before has restarted at zero, as for Prometheus' `rate`: its host
//! or plugin was restarted. A replica that could not be scraped keeps its counts, and its next
//! difference covers the longer time.

use std::{
    collections::HashMap,
    time::{Duration, Instant},
};

use operetta_core::object::ObjectKey;

use super::metrics::{Bucket, Counts, Scrape, add_to_bucket};

/// The current work of a plugin, on all replicas.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Activity {
    /// The rates; None before the second scrape.
    pub rates: Option<Rates>,
    /// Keys that wait in the queues.
    pub queue: f64,
    /// The peak linear memory of one instance, in bytes.
    pub memory: f64,
    /// The bytes that are cached for it.
    pub cached: f64,
}

/// The rates of a plugin, each per second.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Rates {
    /// Seconds of processor time: 1 is one processor.
    pub cpu: f64,
    /// Reconciles.
    pub reconciles: f64,
    /// Failed reconciles.
    pub errors: f64,
    /// Reconciles by duration.
    buckets: Vec<Bucket>,
}

impl Activity {
    /// Adds the activity of another replica or plugin.
    pub fn add(&mut self, other: &Self) {
        self.queue += other.queue;
        self.memory = self.memory.max(other.memory);
        self.cached += other.cached;
        if let Some(rates) = &other.rates {
            self.rates.get_or_insert_default().add(rates);
        }
    }
}

impl Rates {
    /// The duration in seconds below which a share of the reconciles is; None if there were none.
    /// Interpolates within the bucket, as Prometheus' `histogram_quantile` does.
    pub fn quantile(&self, share: f64) -> Option<f64> {
        let total = self.buckets.last()?.count;
        if total <= 0.0 {
            return None;
        }

        let rank = share * total;
        let at = self
            .buckets
            .iter()
            .position(|bucket| bucket.count >= rank)?;

        let below = at.checked_sub(1).map_or(
            Bucket {
                bound: 0.0,
                count: 0.0,
            },
            |at| self.buckets[at],
        );

        let bucket = self.buckets[at];
        if bucket.bound.is_infinite() {
            return Some(below.bound);
        }

        let inside = (rank - below.count) / (bucket.count - below.count).max(f64::MIN_POSITIVE);
        Some(below.bound + (bucket.bound - below.bound) * inside)
    }

    fn between(before: &Counts, now: &Counts, seconds: f64) -> Self {
        let rate = |before: f64, now: f64| {
            if now < before {
                now / seconds
            } else {
                (now - before) / seconds
            }
        };

        let has_restarted = now.reconciles < before.reconciles;
        let earlier = |bound: f64| {
            let found = before
                .buckets
                .iter()
                .find(|bucket| bucket.bound == bound && !has_restarted);
            found.map_or(0.0, |bucket| bucket.count)
        };

        let buckets = now.buckets.iter().map(|&Bucket { bound, count }| Bucket {
            bound,
            count: rate(earlier(bound), count),
        });

        Self {
            cpu: rate(before.cpu, now.cpu),
            reconciles: rate(before.reconciles, now.reconciles),
            errors: rate(before.errors, now.errors),
            buckets: buckets.collect(),
        }
    }

    fn add(&mut self, other: &Self) {
        self.cpu += other.cpu;
        self.reconciles += other.reconciles;
        self.errors += other.errors;
        for bucket in &other.buckets {
            add_to_bucket(&mut self.buckets, bucket.bound, bucket.count);
        }
    }
}

/// The last scrapes of the replicas.
#[derive(Default)]
pub struct Meter {
    replicas: HashMap<String, Replica>,
}

struct Replica {
    at: Instant,
    counts: Scrape,
    rates: HashMap<ObjectKey, Rates>,
}

impl Meter {
    /// Records the scrapes of one round. Replicas that are missing from it are forgotten; those
    /// that failed (None) have no activity.
    pub fn record(&mut self, at: Instant, round: Vec<(String, Option<Scrape>)>) {
        let mut before = std::mem::take(&mut self.replicas);
        for (name, scrape) in round {
            let before = before.remove(&name);
            let replica = match (before, scrape) {
                (Some(before), Some(counts)) => Replica {
                    at,
                    rates: before.rates(at, &counts),
                    counts,
                },
                (None, Some(counts)) => Replica {
                    at,
                    counts,
                    rates: HashMap::new(),
                },
                (Some(before), None) => Replica {
                    rates: HashMap::new(),
                    ..before
                },
                (None, None) => continue,
            };

            self.replicas.insert(name, replica);
        }
    }

    /// The activity of a plugin; None if no replica has counts of it.
    pub fn activity(&self, plugin: &ObjectKey) -> Option<Activity> {
        let mut found: Option<Activity> = None;
        for replica in self.replicas.values() {
            let Some(counts) = replica.counts.get(plugin) else {
                continue;
            };

            let rates = replica.rates.get(plugin).cloned();
            let one = Activity {
                rates,
                queue: counts.queue,
                memory: counts.memory,
                cached: counts.cached,
            };
            found.get_or_insert_default().add(&one);
        }

        found
    }
}

impl Replica {
    fn rates(&self, at: Instant, counts: &Scrape) -> HashMap<ObjectKey, Rates> {
        let seconds = at
            .saturating_duration_since(self.at)
            .max(Duration::from_millis(1))
            .as_secs_f64();

        // A plugin that is new in this scrape has done all its work since the last one.
        let nothing = Counts::default();

        let rates = |(key, now): (&ObjectKey, &Counts)| {
            (
                key.clone(),
                Rates::between(self.counts.get(key).unwrap_or(&nothing), now, seconds),
            )
        };

        counts.iter().map(rates).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key() -> ObjectKey {
        ObjectKey::namespaced("n", "p")
    }

    fn counts(cpu: f64, reconciles: f64, errors: f64) -> Counts {
        let bucket = |bound, count| Bucket { bound, count };
        let buckets = vec![
            bucket(0.1, reconciles / 2.0),
            bucket(0.2, reconciles),
            bucket(f64::INFINITY, reconciles),
        ];

        Counts {
            cpu,
            reconciles,
            errors,
            buckets,
            queue: 1.0,
            memory: 5.0,
            cached: 2.0,
        }
    }

    fn scrape(counts: Counts) -> Option<Scrape> {
        Some(Scrape::from([(key(), counts)]))
    }

    fn round(meter: &mut Meter, at: Instant, replicas: Vec<(&str, Option<Scrape>)>) -> Activity {
        meter.record(
            at,
            replicas
                .into_iter()
                .map(|(name, scrape)| (name.to_owned(), scrape))
                .collect(),
        );
        meter.activity(&key()).unwrap_or_default()
    }

    #[test]
    fn rates_are_differences_over_time_and_replicas() {
        let start = Instant::now();
        let later = |seconds| start + Duration::from_secs(seconds);
        let mut meter = Meter::default();
        let first = round(
            &mut meter,
            start,
            vec![("a", scrape(counts(1.0, 10.0, 1.0))), ("b", None)],
        );

        assert_eq!((first.rates, first.queue), (None, 1.0));

        let replicas = vec![
            ("a", scrape(counts(2.0, 30.0, 3.0))),
            ("b", scrape(counts(1.0, 10.0, 0.0))),
        ];

        let second = round(&mut meter, later(2), replicas);
        let rates = second.rates.expect("rates of the first replica");
        assert_eq!(
            (rates.cpu, rates.reconciles, rates.errors),
            (0.5, 10.0, 1.0)
        );

        assert_eq!(
            (second.queue, second.memory, second.cached),
            (2.0, 5.0, 4.0)
        );

        let replicas = vec![
            ("a", scrape(counts(2.0, 30.0, 3.0))),
            ("b", scrape(counts(2.0, 20.0, 0.0))),
        ];
        let third = round(&mut meter, later(4), replicas)
            .rates
            .expect("rates of both");

        assert_eq!((third.cpu, third.reconciles), (0.5, 5.0));
    }

    #[test]
    fn restarted_host_counts_from_zero() {
        let start = Instant::now();
        let mut meter = Meter::default();
        round(
            &mut meter,
            start,
            vec![("a", scrape(counts(9.0, 100.0, 8.0)))],
        );

        let after = round(
            &mut meter,
            start + Duration::from_secs(2),
            vec![("a", scrape(counts(1.0, 4.0, 0.0)))],
        );

        let rates = after.rates.expect("rates");
        assert_eq!((rates.cpu, rates.reconciles, rates.errors), (0.5, 2.0, 0.0));
        assert_eq!(rates.quantile(0.5), Some(0.1));
    }

    #[test]
    fn unreachable_replica_has_no_rates_until_it_is_back() {
        let start = Instant::now();
        let later = |seconds| start + Duration::from_secs(seconds);
        let mut meter = Meter::default();
        round(
            &mut meter,
            start,
            vec![("a", scrape(counts(0.0, 0.0, 0.0)))],
        );

        assert_eq!(round(&mut meter, later(2), vec![("a", None)]).rates, None);

        let back = round(
            &mut meter,
            later(4),
            vec![("a", scrape(counts(2.0, 8.0, 0.0)))],
        );
        assert_eq!(
            back.rates.map(|rates| (rates.cpu, rates.reconciles)),
            Some((0.5, 2.0))
        );

        round(&mut meter, later(6), vec![]);
        assert_eq!(meter.activity(&key()), None);
    }

    #[test]
    fn quantiles_are_interpolated_in_their_bucket() {
        let rates = Rates::between(&Counts::default(), &counts(0.0, 100.0, 0.0), 1.0);
        assert_eq!(rates.quantile(0.25), Some(0.05));
        assert_eq!(rates.quantile(0.5), Some(0.1));
        assert!((rates.quantile(0.99).expect("a duration") - 0.198).abs() < 1e-9);
        assert_eq!(Rates::default().quantile(0.5), None);

        let slow = Counts {
            buckets: vec![
                Bucket {
                    bound: 0.1,
                    count: 0.0,
                },
                Bucket {
                    bound: f64::INFINITY,
                    count: 5.0,
                },
            ],
            ..Counts::default()
        };

        assert_eq!(
            Rates::between(&Counts::default(), &slow, 1.0).quantile(0.5),
            Some(0.1)
        );
    }
}
