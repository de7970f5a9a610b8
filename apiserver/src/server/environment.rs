//! Time and randomness, which the server does not take from the machine itself.

use std::sync::Arc;

use jiff::Timestamp;
use parking_lot::Mutex;
use ring::rand::{SecureRandom, SystemRandom};

/// The characters of generated names: the API server's, without vowels and characters that look
/// alike.
const ALPHABET: &[u8] = b"bcdfghjklmnpqrstvwxz2456789";
/// The number of characters that are appended to `generateName`.
const SUFFIX: usize = 5;
/// The bytes of `generateName` that stay: a name has at most 63 bytes.
const MAX_PREFIX: usize = 63 - SUFFIX;

type NowFn = dyn Fn() -> Timestamp + Send + Sync;
type RandomFn = dyn FnMut() -> u64 + Send;

/// The source of time and randomness. With a fixed clock and a seeded generator, a run can be
/// repeated exactly.
#[derive(Clone)]
pub struct Environment {
    now: Arc<NowFn>,
    random: Arc<Mutex<RandomFn>>,
}

impl Environment {
    /// Creates an environment from a clock and a generator of random numbers.
    pub fn new(
        now: impl Fn() -> Timestamp + Send + Sync + 'static,
        random: impl FnMut() -> u64 + Send + 'static,
    ) -> Self {
        Self {
            now: Arc::new(now),
            random: Arc::new(Mutex::new(random)),
        }
    }

    /// Returns the environment of this machine: its clock and its random numbers.
    ///
    /// # Panics
    ///
    /// Panics if the system has no random numbers, as when the standard library makes a `HashMap`.
    #[must_use]
    pub fn system() -> Self {
        let random = SystemRandom::new();
        Self::new(Timestamp::now, move || {
            let mut bytes = [0; 8];
            random
                .fill(&mut bytes)
                .expect("the system has random numbers");
            u64::from_le_bytes(bytes)
        })
    }

    /// Creates an environment whose time stands still and whose random numbers follow from `seed`.
    #[must_use]
    pub fn fixed(now: Timestamp, seed: u64) -> Self {
        let mut state = seed;
        Self::new(move || now, move || split_mix(&mut state))
    }

    /// Returns the time.
    #[must_use]
    pub fn now(&self) -> Timestamp {
        (self.now)()
    }

    /// Returns a new UID: a random UUID of version 4.
    #[must_use]
    pub fn uid(&self) -> String {
        let (high, low) = {
            let mut random = self.random.lock();
            (random(), random())
        };
        let high = (high & !0xf000) | 0x4000;
        let low = (low & !(0b11 << 62)) | (0b10 << 62);

        format!(
            "{:08x}-{:04x}-{:04x}-{:04x}-{:012x}",
            high >> 32,
            (high >> 16) & 0xffff,
            high & 0xffff,
            low >> 48,
            low & 0xffff_ffff_ffff
        )
    }

    /// Returns a name that begins with `prefix`.
    #[must_use]
    pub fn generate_name(&self, prefix: &str) -> String {
        let mut end = prefix.len().min(MAX_PREFIX);
        while !prefix.is_char_boundary(end) {
            end -= 1;
        }

        let mut name = prefix[..end].to_owned();
        let mut random = self.random.lock();
        for _ in 0..SUFFIX {
            let index = random() % ALPHABET.len() as u64;
            name.push(char::from(ALPHABET[index as usize]));
        }

        name
    }
}

/// Returns the next number of the generator SplitMix64.
fn split_mix(state: &mut u64) -> u64 {
    *state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let mut value = *state;
    value = (value ^ (value >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    value = (value ^ (value >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    value ^ (value >> 31)
}

/// Returns a time as metadata has it, in whole seconds.
#[must_use]
pub fn format_time(time: Timestamp) -> String {
    Timestamp::from_second(time.as_second())
        .unwrap_or(time)
        .to_string()
}
