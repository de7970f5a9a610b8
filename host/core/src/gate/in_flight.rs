//! The requests to the API server in flight, shared among namespaces by weight.
//!
//! [`Seats`] bound the requests that all plugins of a host have in flight at once. Each namespace
//! is a [`Flow`], and may take every free seat up to its own limit: what nobody else uses is
//! anyone's. When seats are short, the next one goes to the flow that has occupied seats for the
//! shortest time relative to its weight, as in the fair queuing of the API server's own Priority
//! and Fairness (KEP-1040). A flow that was idle has saved nothing up. Within a flow, requests are
//! served first come, first served.
//!
//! When the API server answers 429, the host has more in flight than the API server wants: the
//! seats shrink by a third, and then grow by one for each round of answers without a 429 (additive
//! increase, multiplicative decrease, as TCP has it: RFC 5681).

use std::{
    collections::{BTreeMap, HashMap, VecDeque},
    sync::Arc,
};

use parking_lot::Mutex;
use tokio::{sync::oneshot, time::Instant};

/// The fewest seats that answers of code 429 leave.
const FEWEST: f64 = 4.0;

/// What a 429 leaves of the seats.
const DECREASE: f64 = 2.0 / 3.0;

/// The share of the latest request in the average duration.
const SMOOTHING: f64 = 0.05;

/// The duration in seconds by which a request is charged before any has ended.
const FIRST_GUESS: f64 = 0.005;

/// The seats of a host: the requests that its plugins have in flight at once.
pub struct Seats(Mutex<State>);

struct State {
    /// The configured number of seats.
    most: f64,
    /// The number of seats now: fewer than configured after a 429.
    seats: f64,
    taken: usize,
    flows: HashMap<u64, FlowState>,
    /// The requests that wait, by flow and oldest first. None is empty: most of the time nobody
    /// waits, however many flows there are.
    waiting: BTreeMap<u64, VecDeque<Waiter>>,
    next_id: u64,
    /// The virtual time: the service of the flow that got the last seat.
    clock: f64,
    /// The average duration of a request in seconds. A request in flight is charged this much.
    average: f64,
    /// When the seats shrank last.
    shrank: Option<Instant>,
}

struct FlowState {
    weight: f64,
    limit: usize,
    taken: usize,
    /// The seconds for which its requests have occupied seats, divided by its weight.
    served: f64,
}

struct Waiter {
    flow: Arc<Flow>,
    seat: oneshot::Sender<Seat>,
}

/// The requests of a namespace. Dropping it ends the flow.
pub struct Flow {
    seats: Arc<Seats>,
    id: u64,
}

/// A request that waits for a seat. Dropping it cancels the request.
pub struct PendingSeat {
    /// What it waits for.
    pub delay: Delay,
    seat: oneshot::Receiver<Seat>,
    /// Keeps the flow, whose end would drop the sender.
    _flow: Arc<Flow>,
}

/// A seat of a request, until it is dropped.
pub struct Seat {
    flow: Arc<Flow>,
    began: Instant,
    charged: f64,
}

/// What a request waits for before it is sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Delay {
    /// The quota of requests in each second ([`CallRate`](super::throttle::CallRate)).
    Rate,
    /// Its flow has as many requests in flight as it may have.
    InFlight,
    /// All seats of the host are taken.
    Shared,
}

impl Seats {
    /// Creates this many seats. Zero counts as 1.
    pub fn new(seats: u32) -> Arc<Self> {
        let seats = f64::from(seats.max(1));
        Arc::new(Self(Mutex::new(State {
            most: seats,
            seats,
            taken: 0,
            flows: HashMap::new(),
            waiting: BTreeMap::new(),
            next_id: 0,
            clock: 0.0,
            average: FIRST_GUESS,
            shrank: None,
        })))
    }

    /// Opens a flow with this weight, which has at most `limit` requests in flight. Zero counts as
    /// 1, for both.
    pub fn flow(self: &Arc<Self>, weight: u32, limit: u32) -> Arc<Flow> {
        let mut state = self.0.lock();
        let id = state.next_id;
        state.next_id += 1;
        let flow = FlowState {
            weight: f64::from(weight.max(1)),
            limit: usize::try_from(limit.max(1)).unwrap_or(usize::MAX),
            taken: 0,
            served: 0.0,
        };
        state.flows.insert(id, flow);

        Arc::new(Flow {
            seats: self.clone(),
            id,
        })
    }

    /// Returns the number of requests in flight, and the number of seats now.
    #[cfg(test)]
    fn usage(&self) -> (usize, usize) {
        let state = self.0.lock();
        (state.taken, state.available())
    }

    /// Gives free seats to those who wait.
    fn give(&self) {
        loop {
            let given = self.0.lock().give_next();
            let Some((waiter, charged)) = given else {
                return;
            };
            // Without the lock, which the end of a seat or of a flow takes. A request that was
            // cancelled in this very moment gives its seat back.
            if let Some(charged) = charged {
                drop(waiter.seat.send(Seat::new(waiter.flow, charged)));
            }
        }
    }
}

impl State {
    fn available(&self) -> usize {
        // At least 1, and at most `u32::MAX`.
        self.seats as usize
    }

    /// Takes a seat for the request that is next, and returns by how much it is charged: not at
    /// all, and without a seat, if it was cancelled. None if nobody waits who may have a seat.
    fn give_next(&mut self) -> Option<(Waiter, Option<f64>)> {
        if self.taken >= self.available() {
            return None;
        }

        let waiting = self.waiting.keys();
        let (id, _) = waiting
            .filter_map(|id| Some((*id, self.flows.get(id)?)))
            .filter(|(_, flow)| flow.taken < flow.limit)
            .min_by(|(_, one), (_, other)| one.served.total_cmp(&other.served))?;
        let queue = self.waiting.get_mut(&id)?;
        let waiter = queue.pop_front()?;
        if queue.is_empty() {
            self.waiting.remove(&id);
        }

        let charged = (!waiter.seat.is_closed()).then(|| self.take(id));
        Some((waiter, charged))
    }

    /// Takes a seat for a flow, and returns by how much it is charged.
    fn take(&mut self, id: u64) -> f64 {
        let Some(flow) = self.flows.get_mut(&id) else {
            return 0.0;
        };
        let charged = self.average / flow.weight;
        self.clock = self.clock.max(flow.served);
        self.taken += 1;
        flow.taken += 1;
        flow.served += charged;
        charged
    }

    /// Returns what a new request of a flow would wait for; None if a seat is free.
    fn delay(&self, id: u64) -> Option<Delay> {
        let flow = self.flows.get(&id)?;
        if flow.taken >= flow.limit {
            Some(Delay::InFlight)
        } else if self.taken >= self.available() {
            Some(Delay::Shared)
        } else {
            None
        }
    }
}

impl Flow {
    /// Waits for a seat, and returns it with what it waited for. Cancel it by dropping the future.
    pub async fn begin(self: &Arc<Self>) -> (Option<Seat>, Option<Delay>) {
        match self.request() {
            Ok(seat) => (Some(seat), None),
            Err(pending) => {
                let delay = pending.delay;
                (pending.granted().await, Some(delay))
            }
        }
    }

    /// Asks for a seat.
    ///
    /// # Errors
    /// The request that has to wait, if no seat is free for it.
    pub fn request(self: &Arc<Self>) -> Result<Seat, PendingSeat> {
        let mut state = self.seats.0.lock();
        let clock = state.clock;
        let waits = state.waiting.contains_key(&self.id);
        if let Some(flow) = state.flows.get_mut(&self.id)
            && flow.taken == 0
            && !waits
        {
            flow.served = flow.served.max(clock);
        }

        // Whoever may have a free seat has it, so a free one here is free for this request.
        let Some(delay) = state.delay(self.id) else {
            let charged = state.take(self.id);
            drop(state);
            return Ok(Seat::new(self.clone(), charged));
        };

        let (sender, seat) = oneshot::channel();
        let waiter = Waiter {
            flow: self.clone(),
            seat: sender,
        };
        state.waiting.entry(self.id).or_default().push_back(waiter);
        Err(PendingSeat {
            delay,
            seat,
            _flow: self.clone(),
        })
    }

    /// Charges as many requests as this, which are not sent: the API server did as much work.
    pub fn charge(&self, requests: u32) {
        let mut state = self.seats.0.lock();
        let average = state.average;
        if let Some(flow) = state.flows.get_mut(&self.id) {
            flow.served += f64::from(requests) * average / flow.weight;
        }
    }
}

impl Drop for Flow {
    fn drop(&mut self) {
        self.seats.0.lock().flows.remove(&self.id);
    }
}

impl PendingSeat {
    /// Waits for the seat. None only if the host is stopping.
    pub async fn granted(self) -> Option<Seat> {
        self.seat.await.ok()
    }
}

impl Seat {
    fn new(flow: Arc<Flow>, charged: f64) -> Self {
        Self {
            flow,
            began: Instant::now(),
            charged,
        }
    }

    /// Notes whether the API server has answered that it has too many requests (code 429).
    pub fn answered(&self, too_many: bool) {
        let mut state = self.flow.seats.0.lock();
        if !too_many {
            state.seats = (state.seats + 1.0 / state.seats).min(state.most);
            return;
        }

        // The requests that were in flight at the first 429 say the same once more.
        if state.shrank.is_none_or(|shrank| self.began > shrank) {
            state.seats = (state.seats * DECREASE).max(FEWEST.min(state.most));
            state.shrank = Some(Instant::now());
        }
    }
}

impl Drop for Seat {
    fn drop(&mut self) {
        let seconds = self.began.elapsed().as_secs_f64();
        let seats = &self.flow.seats;
        {
            let mut state = seats.0.lock();
            state.taken -= 1;
            state.average += SMOOTHING * (seconds - state.average);
            if let Some(flow) = state.flows.get_mut(&self.flow.id) {
                flow.taken -= 1;
                flow.served += seconds / flow.weight - self.charged;
            }
        }
        seats.give();
    }
}

#[cfg(test)]
mod tests {
    use std::{
        pin::Pin,
        task::{Context, Poll, Waker},
        time::Duration,
    };

    use rand::{Rng as _, SeedableRng as _, rngs::StdRng};
    use tokio::task::JoinSet;

    use super::*;

    const REQUEST: Duration = Duration::from_millis(10);

    /// Sends requests of a flow, `workers` at once, for ten seconds; returns their number.
    async fn send(flow: Arc<Flow>, workers: usize, duration: Duration) -> u32 {
        let end = Instant::now() + Duration::from_secs(10);
        let worker = |flow: Arc<Flow>| async move {
            let mut sent = 0;
            while Instant::now() < end {
                let (_seat, _) = flow.begin().await;
                tokio::time::sleep(duration).await;
                sent += 1;
            }
            sent
        };
        let all: JoinSet<u32> = (0..workers).map(|_| worker(flow.clone())).collect();
        all.join_all().await.into_iter().sum()
    }

    #[tokio::test(start_paused = true)]
    async fn lone_flow_gets_every_seat_up_to_its_limit() {
        let seats = Seats::new(8);
        let idle = seats.flow(100, 8);
        let sent = send(seats.flow(100, 8), 20, REQUEST).await;
        assert!((7_900..=8_100).contains(&sent), "{sent}");

        let limited = send(seats.flow(100, 2), 20, REQUEST).await;
        assert!((1_900..=2_100).contains(&limited), "{limited}");
        drop(idle);
    }

    #[tokio::test(start_paused = true)]
    async fn seats_are_shared_by_weight_however_many_ask() {
        let seats = Seats::new(4);
        let (one, three) = tokio::join!(
            send(seats.flow(100, 100), 100, REQUEST),
            send(seats.flow(300, 100), 5, REQUEST)
        );
        let ratio = f64::from(three) / f64::from(one);
        assert!((2.6..3.2).contains(&ratio), "{three} to {one}");
        assert!(one + three > 3_900, "no seat stays empty");
    }

    #[tokio::test(start_paused = true)]
    async fn long_requests_count_as_many_short_ones() {
        let seats = Seats::new(4);
        let (short, long) = tokio::join!(
            send(seats.flow(100, 100), 20, REQUEST),
            send(seats.flow(100, 100), 20, 5 * REQUEST)
        );
        let ratio = f64::from(short) / f64::from(long);
        assert!((4.0..6.0).contains(&ratio), "{short} to {long}");
    }

    #[tokio::test(start_paused = true)]
    async fn large_answers_are_paid_for() {
        let seats = Seats::new(1);
        let (plain, large) = (seats.flow(100, 10), seats.flow(100, 10));
        let charging = async {
            let end = Instant::now() + Duration::from_secs(10);
            let mut sent = 0;
            while Instant::now() < end {
                let (_seat, _) = large.begin().await;
                tokio::time::sleep(REQUEST).await;
                large.charge(3);
                sent += 1;
            }
            sent
        };
        let (plain, large) = tokio::join!(send(plain, 10, REQUEST), charging);
        let ratio = f64::from(plain) / f64::from(large);
        assert!((3.5..4.5).contains(&ratio), "{plain} to {large}");
    }

    #[tokio::test(start_paused = true)]
    async fn idle_flow_saves_nothing_up_and_waits_for_one_request_only() {
        let seats = Seats::new(2);
        let quiet = seats.flow(100, 10);
        let busy = tokio::spawn(send(seats.flow(100, 100), 100, REQUEST));
        tokio::time::sleep(Duration::from_secs(5)).await;

        let mut waits = Vec::new();
        for _ in 0..20 {
            let began = Instant::now();
            let (seat, _) = quiet.begin().await;
            waits.push(began.elapsed());
            drop(seat);
            tokio::time::sleep(REQUEST * 7).await;
        }
        assert!(
            waits.iter().all(|wait| *wait <= REQUEST + REQUEST / 2),
            "{waits:?}"
        );

        // The busy one goes on for 3.4 s: it keeps its half.
        let sent = tokio::join!(send(quiet, 100, REQUEST), busy);
        assert!(sent.0 <= 1_750, "it has saved up: {}", sent.0);
    }

    #[tokio::test(start_paused = true)]
    async fn too_many_requests_shrink_the_seats_and_answers_restore_them() {
        let seats = Seats::new(30);
        let flow = seats.flow(100, 100);
        let mut taken = Vec::new();
        for _ in 0..30 {
            taken.extend(flow.begin().await.0);
        }
        for seat in &taken {
            seat.answered(true);
        }
        assert_eq!(seats.usage(), (30, 20), "one 429 counts for all in flight");

        taken.truncate(20);
        let waits = tokio::time::timeout(REQUEST, flow.begin()).await;
        assert!(waits.is_err(), "fewer seats");
        for seat in taken.drain(..) {
            seat.answered(false);
        }
        assert_eq!(seats.usage(), (0, 20));

        for _ in 0..20 {
            tokio::time::sleep(REQUEST).await;
            let (seat, _) = flow.begin().await;
            seat.expect("a seat").answered(true);
        }
        assert_eq!(seats.usage(), (0, 4), "some always remain");
        for _ in 0..600 {
            let (seat, _) = flow.begin().await;
            seat.expect("a seat").answered(false);
        }
        assert_eq!(seats.usage(), (0, 30));
    }

    /// A request of the model: waiting, or in flight.
    type Request = Pin<Box<dyn Future<Output = (Option<Seat>, Option<Delay>)>>>;

    #[tokio::test(start_paused = true)]
    async fn no_history_leaves_a_seat_empty_or_takes_too_many() {
        for seed in 0..300 {
            let mut random = StdRng::seed_from_u64(seed);
            let most = random.random_range(1..6);
            let seats = Seats::new(most);
            let limit = 3;
            let flows: Vec<_> = (0..3)
                .map(|_| seats.flow(random.random_range(1..5), limit))
                .collect();
            let mut waiting: Vec<(usize, Request)> = Vec::new();
            let mut taken: Vec<(usize, Seat)> = Vec::new();

            for _ in 0..300 {
                match random.random_range(0..10) {
                    0..5 => {
                        let which = random.random_range(0..flows.len());
                        let flow = flows[which].clone();
                        waiting.push((which, Box::pin(async move { flow.begin().await })));
                    }
                    5..8 if !taken.is_empty() => {
                        drop(taken.swap_remove(random.random_range(0..taken.len())));
                    }
                    // Cancels a request, which may have been given a seat that it did not take.
                    8 if !waiting.is_empty() => {
                        drop(waiting.swap_remove(random.random_range(0..waiting.len())));
                    }
                    _ => tokio::time::advance(REQUEST).await,
                }

                let mut context = Context::from_waker(Waker::noop());
                let polled = std::mem::take(&mut waiting);
                for (which, mut request) in polled {
                    match request.as_mut().poll(&mut context) {
                        Poll::Ready((seat, _)) => taken.push((which, seat.expect("a seat"))),
                        Poll::Pending => waiting.push((which, request)),
                    }
                }

                assert_eq!(seats.usage(), (taken.len(), most as usize));
                assert!(taken.len() <= most as usize);
                let of = |which: usize| taken.iter().filter(|(of, _)| *of == which).count();
                for which in 0..flows.len() {
                    assert!(of(which) <= limit as usize, "seed {seed}");
                    let waits = waiting.iter().any(|(of, _)| *of == which);
                    assert!(
                        !waits || of(which) == limit as usize || taken.len() == most as usize,
                        "seed {seed}: a request waits for nothing"
                    );
                }
            }
        }
    }
}
