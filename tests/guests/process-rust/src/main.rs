//! A program with a main of its own, for the tests of processes in Rust: tokio and the standard
//! library, compiled for wasm32-wasip2. Its first argument says what it does; it prints what it finds,
//! and fails if that is not what a program expects of its system.

mod files;
mod network;

use std::{
    env,
    error::Error,
    process::ExitCode,
    time::{Duration, Instant, SystemTime},
};

type Result<T = (), E = Box<dyn Error>> = std::result::Result<T, E>;

#[tokio::main(flavor = "current_thread")]
async fn main() -> ExitCode {
    let arguments: Vec<String> = env::args().skip(1).collect();
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();

    let done = match arguments[..] {
        ["system"] => system().await,
        ["files"] => files::work_as_on_any_system(),
        ["descriptors"] => files::open_without_end(),
        ["connect", address] => network::connect(address).await,
        ["talk", address] => network::talk(address).await,
        ["stuff", address] => network::stuff(address).await,
        ["many", address] => network::many(address).await,
        ["resolve", name] => network::resolve(name).await,
        ["serve", address] => network::serve(address).await,
        ["itself"] => network::itself().await,
        ["exit", code] => match code.parse::<u8>() {
            Ok(code) => return ExitCode::from(code),
            Err(_) => Err("no code".into()),
        },
        ["panic"] => panic!("a bug in the operator"),
        ["spin"] => spin(),
        ["spin-politely"] => spin_politely(Duration::from_millis(600)).await,
        ["allocate"] => allocate(),
        _ => Err(format!("no such thing to do: {arguments:?}").into()),
    };

    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error}");
            ExitCode::FAILURE
        }
    }
}

/// Prints the environment, and checks the clocks and the randomness.
async fn system() -> Result {
    println!("HOME is {}", env::var("HOME")?);
    eprintln!("a line on stderr");

    let before = Instant::now();
    tokio::time::sleep(Duration::from_millis(20)).await;
    std::thread::sleep(Duration::from_millis(20));
    if before.elapsed() < Duration::from_millis(40) {
        return Err(format!("slept for {:?} only", before.elapsed()).into());
    }
    let timed_out = tokio::time::timeout(Duration::from_millis(5), std::future::pending::<()>());
    timed_out.await.expect_err("nothing happens");

    let since_1970 = SystemTime::UNIX_EPOCH.elapsed()?;
    println!(
        "the year is after 2023: {}",
        since_1970.as_secs() > 1_704_067_200
    );
    // Each map has a seed of its own.
    let seeds = [(); 2].map(|()| {
        use std::hash::BuildHasher;
        std::collections::hash_map::RandomState::new().hash_one(1)
    });
    println!("seeds differ: {}", seeds[0] != seeds[1]);
    Ok(())
}

fn spin() -> ! {
    let mut number = 0_u64;
    loop {
        number = std::hint::black_box(number.wrapping_add(1));
    }
}

/// Computes, and asks the runtime now and then whether something else is ready.
async fn spin_politely(time: Duration) -> Result {
    let started = Instant::now();
    while started.elapsed() < time {
        tokio::time::sleep(Duration::ZERO).await;
        tokio::task::yield_now().await;
    }
    Ok(())
}

fn allocate() -> Result {
    let mut all = Vec::new();
    loop {
        all.push(vec![1_u8; 1 << 20]);
        std::hint::black_box(&all);
    }
}
