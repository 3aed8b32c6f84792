//! `simulate` measures how long a random mesh takes to converge from a cold start, and how many packets that costs.

use std::time::{Duration, Instant};

use clap::Parser;
use olsrv2::{Config, Counters, Family};
use serde::Serialize;
use simulator::{truth::Distances, Field, Mesh};

/// Run OLSRv2 routers in virtual time from a cold start until all routes are right.
#[derive(Parser)]
#[command(version)]
struct Arguments {
    /// Number of routers
    #[arg(long, default_value_t = 100)]
    nodes: usize,
    /// Average number of neighbours
    #[arg(long, default_value_t = 12.0)]
    degree: f64,
    /// Probability that a receiver misses a packet, 0 to 1
    #[arg(long, default_value_t = 0.0)]
    loss: f64,
    /// Seed of positions, loss, delay and jitter
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Virtual seconds after which to give up
    #[arg(long, default_value_t = 60)]
    limit: u64,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

/// The results of a run. Times are virtual unless their name contains `wall`.
#[derive(Serialize)]
struct Report {
    schema: u32,
    nodes: usize,
    links: usize,
    diameter_hops: usize,
    seed: u64,
    loss: f64,
    converged: bool,
    convergence_seconds: Option<f64>,
    simulated_seconds: f64,
    wall_seconds: f64,
    packets_sent: u64,
    octets_sent: u64,
    hellos_sent: u64,
    tcs_sent: u64,
    forwarded: u64,
    route_calculations: u64,
}

fn main() {
    let arguments = Arguments::parse();
    let report = run(&arguments);
    if arguments.json {
        println!("{}", serde_json::json!(report));
    } else {
        print_text(&report);
    }
    std::process::exit(i32::from(!report.converged));
}

fn run(arguments: &Arguments) -> Report {
    let mut rng = fastrand::Rng::with_seed(arguments.seed);
    let field = Field::random(arguments.nodes, arguments.degree, &mut rng);
    let pairs = field.pairs();
    let started = Instant::now();
    let mut mesh = Mesh::new(arguments.seed, Config::default(), &[Family::V6]);
    mesh.radio.loss = arguments.loss;
    mesh.add_nodes(arguments.nodes);
    mesh.set_radio_pairs(&pairs);
    let convergence = mesh.run_until_converged(
        Duration::from_secs(arguments.limit),
        Duration::from_millis(100),
    );
    let wall_seconds = started.elapsed().as_secs_f64();
    let counters = mesh.counters();
    let sum = |field: fn(&Counters) -> u64| counters.iter().map(field).sum();
    Report {
        schema: 1,
        nodes: arguments.nodes,
        links: pairs.len(),
        diameter_hops: Distances::of(&mesh).diameter(),
        seed: arguments.seed,
        loss: arguments.loss,
        converged: convergence.is_some(),
        convergence_seconds: convergence.map(|time| time.as_secs_f64()),
        simulated_seconds: mesh.now().as_secs_f64(),
        wall_seconds,
        packets_sent: sum(|counters| counters.packets_sent),
        octets_sent: sum(|counters| counters.octets_sent),
        hellos_sent: sum(|counters| counters.hellos_sent),
        tcs_sent: sum(|counters| counters.tcs_sent),
        forwarded: sum(|counters| counters.forwarded),
        route_calculations: sum(|counters| counters.route_calculations),
    }
}

fn print_text(report: &Report) {
    let convergence = match report.convergence_seconds {
        Some(seconds) => format!("converged after {seconds:.2} s"),
        None => format!("not converged after {:.2} s", report.simulated_seconds),
    };
    println!(
        "{} nodes, {} links, {} hops across: {convergence}",
        report.nodes, report.links, report.diameter_hops
    );
    println!(
        "{} packets, {} octets, {} HELLOs, {} TCs, {} forwarded",
        report.packets_sent,
        report.octets_sent,
        report.hellos_sent,
        report.tcs_sent,
        report.forwarded
    );
    println!(
        "{:.2} s of virtual time in {:.2} s",
        report.simulated_seconds, report.wall_seconds
    );
}
