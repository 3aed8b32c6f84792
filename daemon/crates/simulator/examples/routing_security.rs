//! `routing_security` measures what signatures cost: the routers of a mesh at rest, and one router in a flood.

use std::net::{IpAddr, Ipv6Addr};
use std::time::Duration;

use clap::{Args, Parser, Subcommand, ValueEnum};
use icv::Signer;
use olsrv2::{Config, Counters, Family, Signatures};
use rfc5444::iana::{address_tlv, link_metric, message, message_tlv, nbr_addr_type};
use rfc5444::{metric::compress, AddressEntry, Message, Packet, Prefix, Tlv};
use serde::Serialize;
use simulator::{truth, verifications, Field, Mesh, Port, RADIO};

/// Measure what signatures of routing messages cost, in virtual time, as JSON.
#[derive(Parser)]
#[command(version)]
struct Arguments {
    #[command(subcommand)]
    what: What,
}

/// The line of a flood: the number of routers, the one that is flooded, and the neighbour in whose name.
const LINE: usize = 5;
const VICTIM: Port = Port {
    node: 2,
    interface: RADIO,
};
const NEIGHBOUR: usize = 1;

#[derive(Subcommand)]
enum What {
    /// The routers of a random mesh, after they have found all routes
    Mesh(MeshArguments),
    /// The router in the middle of a line of five, to which somebody sends
    Flood(FloodArguments),
}

#[derive(Args)]
struct MeshArguments {
    /// Number of routers
    #[arg(long, default_value_t = 100)]
    nodes: usize,
    /// Average number of neighbours
    #[arg(long, default_value_t = 12.0)]
    degree: f64,
    /// Whether messages are signed, and what unsigned ones count
    #[arg(long, value_enum)]
    signatures: Setting,
    /// Seed of positions, delay and jitter
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Virtual seconds before the measurement
    #[arg(long, default_value_t = 20)]
    settle: u64,
    /// Virtual seconds of the measurement
    #[arg(long, default_value_t = 20)]
    seconds: u64,
}

#[derive(Args)]
struct FloodArguments {
    /// What is sent
    #[arg(long, value_enum)]
    kind: Kind,
    /// Messages a second
    #[arg(long)]
    rate: u32,
    /// Virtual seconds
    #[arg(long, default_value_t = 20)]
    seconds: u32,
}

#[derive(Clone, Copy, ValueEnum, Serialize)]
#[serde(rename_all = "kebab-case")]
enum Setting {
    /// Nobody signs, and nobody verifies
    Off,
    Prefer,
    Require,
}

#[derive(Clone, Copy, ValueEnum, Serialize)]
#[serde(rename_all = "kebab-case")]
enum Kind {
    /// TCs with false signatures, from a new address for each message
    Strangers,
    /// TCs with false signatures from the address of a neighbour
    Neighbour,
    /// HELLOs with false signatures from the address of a neighbour
    Hellos,
    /// TCs with true signatures, of a new router for each message, which does not exist
    Invented,
    /// The same with a key of small order
    SmallOrder,
    /// TCs from the address of a neighbour, whose signature lacks its last octet
    Cut,
    /// TCs from the address of a neighbour, signed by an algorithm that nobody knows
    Unknown,
    /// HELLOs from the address of a neighbour, with the signature of its TC
    OtherType,
    /// One TC of a neighbour, from its address, again and again
    Replayed,
    /// TCs from the address of a neighbour, with a false signature and the highest counter
    LastCounter,
}

#[derive(Serialize)]
struct MeshReport {
    schema: u32,
    nodes: usize,
    links: usize,
    signatures: Setting,
    seed: u64,
    seconds: u64,
    /// Whether all routes were right at the end.
    right: bool,
    /// Processor time of the simulation in those seconds.
    cpu_seconds: f64,
    /// Memory of the mesh, the simulator's queue included.
    resident_octets: u64,
    octets_sent: u64,
    packets_sent: u64,
    /// Signatures that routers have verified.
    verified: u64,
    /// Of these, those that were verified for the first time.
    computed: usize,
    /// Median of how long one took.
    verify_seconds: f64,
}

#[derive(Serialize)]
struct FloodReport {
    schema: u32,
    kind: Kind,
    rate: u32,
    seconds: u32,
    /// After how many of the seconds a route was wrong.
    wrong_seconds: u32,
    /// Processor time of the simulation: of the flooded router, and of the four others.
    cpu_seconds: f64,
    /// Signatures that the flooded router has verified.
    verified: u64,
    /// Messages that it dropped because their source exceeded a rate.
    rate_limited: u64,
    /// What the five routers and the simulator have taken of memory since the flood began.
    resident_octets: u64,
}

fn main() {
    let report = match Arguments::parse().what {
        What::Mesh(arguments) => serde_json::json!(at_rest(&arguments)),
        What::Flood(arguments) => serde_json::json!(flooded(&arguments)),
    };
    println!("{report}");
}

fn at_rest(arguments: &MeshArguments) -> MeshReport {
    let mut rng = fastrand::Rng::with_seed(arguments.seed);
    let field = Field::random(arguments.nodes, arguments.degree, &mut rng);
    let pairs = field.pairs();
    let empty = resident_octets();
    let mut mesh = mesh(arguments.seed, arguments.nodes, arguments.signatures);
    mesh.set_radio_pairs(&pairs);
    mesh.share_verifications();
    mesh.run_for(Duration::from_secs(arguments.settle));
    verifications();
    let (before, began) = (mesh.counters(), cpu_seconds());
    mesh.run_for(Duration::from_secs(arguments.seconds));
    let (after, ended) = (mesh.counters(), cpu_seconds());
    let grown = |field: fn(&Counters) -> u64| {
        let sum = |counters: &[Counters]| counters.iter().map(field).sum::<u64>();
        sum(&after) - sum(&before)
    };
    let mut times = verifications();
    times.sort_unstable();
    MeshReport {
        schema: 1,
        nodes: arguments.nodes,
        links: pairs.len(),
        signatures: arguments.signatures,
        seed: arguments.seed,
        seconds: arguments.seconds,
        right: truth::check(&mesh).is_ok(),
        cpu_seconds: ended - began,
        resident_octets: resident_octets().saturating_sub(empty),
        octets_sent: grown(|counters| counters.octets_sent),
        packets_sent: grown(|counters| counters.packets_sent),
        verified: grown(|counters| counters.verified),
        computed: times.len(),
        verify_seconds: times
            .get(times.len() / 2)
            .map_or(0.0, Duration::as_secs_f64),
    }
}

fn mesh(seed: u64, nodes: usize, setting: Setting) -> Mesh {
    let signatures = match setting {
        Setting::Off => Signatures::Off,
        Setting::Prefer => Signatures::Prefer,
        Setting::Require => Signatures::Require,
    };
    let config = Config {
        signatures,
        ..Config::default()
    };
    let mut mesh = Mesh::new(seed, config, &[Family::V6]);
    mesh.add_nodes(nodes);
    // Without signatures, too, addresses are hashes: they are longer in messages than those that are counted up.
    for node in 0..nodes {
        mesh.give_key(node, node as u64);
        mesh.act(node, |router| {
            router.set_signing(signatures != Signatures::Off);
        });
    }
    mesh
}

fn flooded(arguments: &FloodArguments) -> FloodReport {
    let mut mesh = mesh(1, LINE, Setting::Require);
    (1..LINE).for_each(|node| mesh.connect(node - 1, node));
    mesh.run_for(Duration::from_secs(10));
    let mut flood = Flood::new(&mut mesh, arguments.kind);
    let victim = |mesh: &Mesh| mesh.router(VICTIM.node).expect("it runs").counters();
    let before = victim(&mesh);
    // A second's packets are made at once, which is memory of the sender.
    let of_a_second = |flood: &mut Flood| (0..arguments.rate).map(|_| flood.next()).collect();
    drop::<Vec<_>>(of_a_second(&mut flood));
    let (empty, mut spent, mut wrong_seconds) = (resident_octets(), 0.0, 0);
    for _ in 0..arguments.seconds {
        let packets: Vec<_> = of_a_second(&mut flood);
        let began = cpu_seconds();
        for (source, packet) in packets {
            mesh.inject(VICTIM, source, &packet);
            mesh.run_for(Duration::from_secs(1) / arguments.rate);
        }
        if arguments.rate == 0 {
            mesh.run_for(Duration::from_secs(1));
        }
        spent += cpu_seconds() - began;
        wrong_seconds += u32::from(truth::check(&mesh).is_err());
    }
    let after = victim(&mesh);
    FloodReport {
        schema: 1,
        kind: arguments.kind,
        rate: arguments.rate,
        seconds: arguments.seconds,
        wrong_seconds,
        cpu_seconds: spent,
        verified: after.verified - before.verified,
        rate_limited: after.rate_limited - before.rate_limited,
        resident_octets: resident_octets().saturating_sub(empty),
    }
}

/// What somebody sends who has heard a neighbour of the flooded router.
struct Flood {
    kind: Kind,
    /// A message of the neighbour.
    heard: Message,
    neighbour: IpAddr,
    signer: Signer,
    count: u32,
}

impl Flood {
    fn new(mesh: &mut Mesh, kind: Kind) -> Self {
        mesh.record();
        mesh.run_for(Duration::from_secs(6));
        let is_hello = matches!(kind, Kind::Hellos);
        let typ = if is_hello {
            message::HELLO
        } else {
            message::TC
        };
        let recorded = mesh.recorded();
        let heard = recorded.iter();
        let of_neighbour = heard.filter(|packet| packet.from.node == NEIGHBOUR);
        let first = of_neighbour.clone().next();
        let neighbour = first.expect("it sends").source;
        let packets = of_neighbour.filter_map(|recorded| Packet::decode(&recorded.bytes).ok());
        let mut messages = packets.flat_map(|packet| packet.messages);
        let name = mesh.originator(NEIGHBOUR, Family::V6);
        let is_his = |message: &Message| message.typ == typ && message.originator == Some(name);
        Self {
            kind,
            heard: messages.find(is_his).expect("it sends both"),
            neighbour,
            signer: Signer::new(&[7; icv::KEY_LENGTH]),
            count: 0,
        }
    }

    /// Returns the next packet and its source address.
    fn next(&mut self) -> (IpAddr, Vec<u8>) {
        self.count += 1;
        let count = self.count;
        let stranger = Ipv6Addr::from_bits(0xfe80 << 112 | 1 << 64 | u128::from(count));
        let (source, message) = match self.kind {
            Kind::Strangers => (stranger.into(), self.raised()),
            Kind::Invented => (stranger.into(), self.invented()),
            Kind::SmallOrder => (stranger.into(), small_order(self.invented())),
            Kind::Neighbour | Kind::Hellos => (self.neighbour, self.raised()),
            Kind::Cut => (self.neighbour, cut(self.raised())),
            Kind::Unknown => (self.neighbour, unknown(self.raised())),
            Kind::OtherType => (self.neighbour, other_type(self.raised())),
            Kind::Replayed => (self.neighbour, self.heard.clone()),
            Kind::LastCounter => (self.neighbour, last_counter(self.raised())),
        };
        let packet = Packet {
            messages: vec![message],
            ..Packet::default()
        };
        (source, packet.encode().expect("it has room"))
    }

    /// Returns what was heard with another number and a higher counter, so that it looks new.
    fn raised(&self) -> Message {
        let mut message = self.heard.clone();
        message.seq = message.seq.map(|seq| seq.wrapping_add(self.count as u16));
        tlv(&mut message, message_tlv::TIMESTAMP).value[2..6]
            .copy_from_slice(&self.count.to_be_bytes());
        message
    }

    /// Returns a TC of a router that does not exist. No hash proves its address, so one key serves for all.
    fn invented(&self) -> Message {
        let own = Ipv6Addr::from_bits(0x2001_0db8 << 96 | u128::from(self.count));
        let mut tc = Message::new(message::TC, own.into());
        (tc.hop_limit, tc.hop_count, tc.seq) = (Some(255), Some(0), Some(1));
        tc.tlvs = vec![
            Tlv::new(message_tlv::VALIDITY_TIME, 0, [0x72]),
            Tlv::new(message_tlv::CONT_SEQ_NUM, 0, [0, 1]),
        ];
        let metric = link_metric::OUTGOING_NEIGHBOR | compress(olsrv2::Metric::MIN);
        tc.addresses.push(AddressEntry {
            prefix: Prefix::host(self.heard.originator.expect("a TC has one")),
            tlvs: vec![
                Tlv::new(address_tlv::LINK_METRIC, 0, metric.to_be_bytes()),
                Tlv::new(
                    address_tlv::NBR_ADDR_TYPE,
                    0,
                    [nbr_addr_type::ROUTABLE_ORIG],
                ),
            ],
        });
        let encoded = tc.encode().expect("it has room");
        let signed = self.signer.sign(&encoded, self.count.into(), 0);
        Message::decode(&signed.expect("it has room")).expect("we have encoded it")
    }
}

/// Returns the TLV of a signed message with this type, and the type extension of signatures.
fn tlv(message: &mut Message, typ: u8) -> &mut Tlv {
    let mut tlvs = message.tlvs.iter_mut();
    let found = tlvs.find(|tlv| tlv.is(typ, icv::ICV_EXTENSION));
    found.expect("it is signed")
}

/// Puts the neutral element in the place of the key, for which a signature of nothing is good.
fn small_order(mut message: Message) -> Message {
    let key = &mut tlv(&mut message, message_tlv::ICV).value[..icv::KEY_LENGTH];
    key.fill(0);
    key[0] = 1;
    message
}

fn cut(mut message: Message) -> Message {
    tlv(&mut message, message_tlv::ICV).value.pop();
    message
}

fn unknown(mut message: Message) -> Message {
    tlv(&mut message, message_tlv::ICV).ext = 255;
    message
}

fn other_type(mut message: Message) -> Message {
    message.typ = message::HELLO;
    message
}

fn last_counter(mut message: Message) -> Message {
    tlv(&mut message, message_tlv::TIMESTAMP).value[..8].fill(0xff);
    message
}

/// Returns the processor time of this thread, which is the only one. Yielding brings the kernel's account up to date.
fn cpu_seconds() -> f64 {
    std::thread::yield_now();
    let text = std::fs::read_to_string("/proc/self/schedstat").expect("Linux counts it");
    let nanoseconds = text.split(' ').next().and_then(|first| first.parse().ok());
    Duration::from_nanos(nanoseconds.expect("it is the first number")).as_secs_f64()
}

fn resident_octets() -> u64 {
    let text = std::fs::read_to_string("/proc/self/statm").expect("Linux counts it");
    let pages: Option<u64> = text.split(' ').nth(1).and_then(|pages| pages.parse().ok());
    pages.expect("it is the second number") * 4096
}
