//! What the atomic form costs: clients that insert a payment and update a balance, against the same
//! transaction without Semel, and against the usual rows written by hand; all with prepared
//! statements, in turns on one server.
//!
//! `cargo bench -p semel-postgres --bench atomic -- [--json] [--only bare|semel|hand] [--seconds N]
//! [--turns N] [--clients N] [--delay-us N] [--major 15|17|18]`
//!
//! With a delay, requests and replies pass a proxy that takes half of it for each.

#![allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::disallowed_methods,
    reason = "a bench measures time and may fail by panicking"
)]

mod flows;

use std::time::Duration;

use flows::{Flow, Shop};
use semel_testkit::servers::Major;

#[derive(Debug)]
struct Options {
    json: bool,
    /// One flow alone, for a profiler.
    only: Option<Flow>,
    seconds: u64,
    turns: usize,
    clients: u64,
    delay: Duration,
    major: Major,
}

fn main() {
    let options = options();
    let runtime =
        tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
    runtime.block_on(measure(&options));
}

async fn measure(options: &Options) {
    let shop = Shop::open(options.major, options.delay, options.clients).await;
    let span = Duration::from_secs(options.seconds);
    if let Some(flow) = options.only {
        println!("{flow:?}: {:.0} transactions/s", shop.round(flow, span).await);
        return;
    }
    let flows = [Flow::Bare, Flow::Semel, Flow::Hand];
    for flow in flows {
        shop.round(flow, Duration::from_millis(500)).await;
    }
    let mut rates = [const { Vec::new() }; 3];
    for _ in 0..options.turns {
        for (flow, rates) in flows.into_iter().zip(&mut rates) {
            rates.push(shop.round(flow, span).await);
        }
    }
    let [bare, semel, hand] = rates.map(median);
    shop.check().await;
    if options.json {
        println!(
            "{{\"bench\":\"atomic\",\"clients\":{},\"delay_us\":{},\"bare_per_s\":{bare:.0},\
             \"semel_per_s\":{semel:.0},\"hand_per_s\":{hand:.0},\"semel_to_bare\":{:.3},\
             \"semel_to_hand\":{:.3}}}",
            options.clients,
            options.delay.as_micros(),
            semel / bare,
            semel / hand,
        );
        return;
    }
    println!("bare transaction                {bare:>7.0} /s");
    println!("the same in semel's atomic form {semel:>7.0} /s   {:.3} of bare", semel / bare);
    println!("rows written by hand            {hand:>7.0} /s   semel is {:.2} of it", semel / hand);
}

fn median(mut rates: Vec<f64>) -> f64 {
    rates.sort_by(f64::total_cmp);
    rates[rates.len() / 2]
}

fn options() -> Options {
    let mut options = Options {
        json: false,
        only: None,
        seconds: 2,
        turns: 5,
        clients: 16,
        delay: Duration::ZERO,
        major: Major::V18,
    };
    let mut words = std::env::args().skip(1);
    while let Some(word) = words.next() {
        let mut number = || words.next().unwrap().parse::<u64>().unwrap();
        match word.as_str() {
            "--json" => options.json = true,
            "--seconds" => options.seconds = number(),
            "--turns" => options.turns = usize::try_from(number()).unwrap(),
            "--clients" => options.clients = number(),
            "--delay-us" => options.delay = Duration::from_micros(number()),
            "--major" => {
                let number = number();
                let known = |major: &Major| u64::from(major.number()) == number;
                options.major = Major::ALL.into_iter().find(known).unwrap();
            }
            "--only" => {
                options.only = match words.next().unwrap().as_str() {
                    "bare" => Some(Flow::Bare),
                    "hand" => Some(Flow::Hand),
                    _ => Some(Flow::Semel),
                };
            }
            _ => {}
        }
    }
    options
}
