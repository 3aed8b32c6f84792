//! Messages over UDP, as in figure 12 of the dissertation: the client asks, the server sends all messages in the clear;
//! the client asks under encryption, the server sends all sealed, and the client opens them. `run` reports each end's
//! own times, `network` those that a capture between the ends would show (figures 17 to 20).

use std::io;
use std::net::UdpSocket;
use std::os::fd::AsRawFd;
use std::process::ExitCode;
use std::thread;
use std::time::{Duration, Instant};

use crate::contenders::{self, Contender, Tag, TAG};

/// No message may be lost, so all of one run fit into the socket's buffer.
static BUFFER: libc::c_int = 32 << 20;
const LOST: Duration = Duration::from_secs(2);
/// Octets before a sealed message: its number.
const HEAD: usize = 8;
/// The dissertation's two ends: an implementation of its own, and OpenSSL's.
const COMPARED: [&str; 2] = ["AES-128-CCM, meshsec", "AES-128-CCM, OpenSSL"];

/// Milliseconds of one run.
struct Times {
    sent_plain: f64,
    sent_sealed: f64,
    received_plain: f64,
    received_sealed: f64,
    /// From the client's request under encryption to the last sealed message.
    response: f64,
    /// From the first sealed message to the last one: about what sealing them takes.
    sealing: f64,
}

/// What the server measured.
struct Served {
    plain: f64,
    sealed: f64,
    first_sealed: Instant,
    last_sealed: Instant,
}

/// What the client measured.
struct Asked {
    plain: f64,
    sealed: f64,
    at: Instant,
}

pub fn run(messages: usize, sizes: &[usize]) -> ExitCode {
    // The first exchange only warms the machine up.
    let mut counts = false;
    for octets in sizes.iter().take(1).chain(sizes) {
        // Those with CCMP's tag are CCM.
        let ends = [contenders::all(), contenders::all()];
        let [servers, clients] =
            ends.map(|all| all.into_iter().filter(|one| one.name().contains("CCM")));
        for (server, client) in servers.zip(clients) {
            let name = server.name();
            match exchange(server, client, messages, *octets) {
                Ok(times) if counts => report(name, *octets, messages, &times),
                Ok(_) => {}
                Err(error) => {
                    eprintln!("bench: {messages} messages of {octets} octets: {error}");
                    return ExitCode::FAILURE;
                }
            }
        }
        counts = true;
    }
    ExitCode::SUCCESS
}

/// Reports the times between the ends for our implementation and OpenSSL's, at equal ends and at different ones.
pub fn network(messages: usize, sizes: &[usize]) -> ExitCode {
    let mut counts = false;
    for octets in sizes.iter().take(1).chain(sizes) {
        for server in COMPARED {
            for client in COMPARED {
                let (Some(sealer), Some(opener)) = (named(server), named(client)) else {
                    eprintln!("bench: {server} or {client} is not there");
                    return ExitCode::FAILURE;
                };
                match exchange(sealer, opener, messages, *octets) {
                    Ok(times) if counts => {
                        between(server, client, *octets, messages, &times);
                    }
                    Ok(_) => {}
                    Err(error) => {
                        eprintln!("bench: {messages} messages of {octets} octets: {error}");
                        return ExitCode::FAILURE;
                    }
                }
            }
        }
        counts = true;
    }
    ExitCode::SUCCESS
}

fn named(name: &str) -> Option<Box<dyn Contender>> {
    contenders::all().into_iter().find(|one| one.name() == name)
}

fn exchange(
    mut server: Box<dyn Contender>,
    mut client: Box<dyn Contender>,
    messages: usize,
    octets: usize,
) -> io::Result<Times> {
    let (here, there) = (socket()?, socket()?);
    here.connect(there.local_addr()?)?;
    there.connect(here.local_addr()?)?;
    let serving = thread::spawn(move || serve(server.as_mut(), &here, messages, octets));
    let asked = ask(client.as_mut(), &there, messages, octets)?;
    let served = serving
        .join()
        .map_err(|_| io::Error::other("the server ended"))??;
    Ok(Times {
        sent_plain: served.plain,
        sent_sealed: served.sealed,
        received_plain: asked.plain,
        received_sealed: asked.sealed,
        response: apart(asked.at, served.last_sealed),
        sealing: apart(served.first_sealed, served.last_sealed),
    })
}

fn socket() -> io::Result<UdpSocket> {
    let socket = UdpSocket::bind("127.0.0.1:0")?;
    socket.set_read_timeout(Some(LOST))?;
    let (size, length) = (
        (&raw const BUFFER).cast(),
        size_of_val(&BUFFER) as libc::socklen_t,
    );
    // SAFETY: the option is an int, which lives as long as the program.
    let done = unsafe {
        libc::setsockopt(
            socket.as_raw_fd(),
            libc::SOL_SOCKET,
            libc::SO_RCVBUFFORCE,
            size,
            length,
        )
    };
    if done == 0 {
        Ok(socket)
    } else {
        Err(io::Error::last_os_error())
    }
}

/// Sends all messages in the clear, then all sealed.
fn serve(
    cipher: &mut dyn Contender,
    socket: &UdpSocket,
    messages: usize,
    octets: usize,
) -> io::Result<Served> {
    let mut buffer = vec![0x5a; HEAD + octets + TAG];
    socket.recv(&mut buffer)?;
    let start = Instant::now();
    for _ in 0..messages {
        socket.send(&buffer[..octets])?;
    }
    let plain = milliseconds(start);
    let length = socket.recv(&mut buffer)?;
    opened(cipher, &mut buffer[..length])?;
    let start = Instant::now();
    let (mut first_sealed, mut last_sealed) = (start, start);
    for number in 0..messages {
        sealed(cipher, 1 + number as u64, &mut buffer);
        socket.send(&buffer)?;
        last_sealed = Instant::now();
        if number == 0 {
            first_sealed = last_sealed;
        }
    }
    Ok(Served {
        plain,
        sealed: apart(start, last_sealed),
        first_sealed,
        last_sealed,
    })
}

/// Receives all messages in the clear, then all sealed.
fn ask(
    cipher: &mut dyn Contender,
    socket: &UdpSocket,
    messages: usize,
    octets: usize,
) -> io::Result<Asked> {
    let mut buffer = vec![0x5a; HEAD + octets + TAG];
    socket.send(&buffer[..octets])?;
    let start = Instant::now();
    for _ in 0..messages {
        socket.recv(&mut buffer)?;
    }
    let plain = milliseconds(start);
    sealed(cipher, 0, &mut buffer);
    let at = Instant::now();
    socket.send(&buffer)?;
    let start = Instant::now();
    for _ in 0..messages {
        let length = socket.recv(&mut buffer)?;
        opened(cipher, &mut buffer[..length])?;
    }
    Ok(Asked {
        plain,
        sealed: milliseconds(start),
        at,
    })
}

fn sealed(cipher: &mut dyn Contender, number: u64, message: &mut [u8]) {
    let (head, rest) = message.split_at_mut(HEAD);
    head.copy_from_slice(&number.to_be_bytes());
    let (content, tag) = rest.split_at_mut(rest.len() - TAG);
    tag.copy_from_slice(&cipher.seal(number, head, content)[..TAG]);
}

fn opened(cipher: &mut dyn Contender, message: &mut [u8]) -> io::Result<()> {
    let mut octets = [0; HEAD];
    let mut full = Tag::default();
    let (head, rest) = message.split_at_mut(HEAD);
    octets.copy_from_slice(head);
    let (content, tag) = rest.split_at_mut(rest.len() - TAG);
    full[..TAG].copy_from_slice(tag);
    let authentic = cipher.open(u64::from_be_bytes(octets), head, content, &full);
    authentic
        .then_some(())
        .ok_or_else(|| io::Error::other("a forged message"))
}

fn milliseconds(start: Instant) -> f64 {
    apart(start, Instant::now())
}

fn apart(start: Instant, end: Instant) -> f64 {
    (end - start).as_secs_f64() * 1e3
}

fn between(by: &str, to: &str, octets: usize, messages: usize, times: &Times) {
    for (what, milliseconds) in [("response", times.response), ("sealing", times.sealing)] {
        println!(
            "{{\"what\": \"{what}\", \"by\": \"{by}\", \"to\": \"{to}\", \"octets\": {octets}, \"messages\": {messages}, \"ms\": {milliseconds:.3}}}"
        );
    }
}

fn report(by: &str, octets: usize, messages: usize, times: &Times) {
    let rows = [
        ("sending, plain", times.sent_plain),
        ("sending, sealed", times.sent_sealed),
        ("receiving, plain", times.received_plain),
        ("receiving, sealed", times.received_sealed),
    ];
    for (what, milliseconds) in rows {
        println!(
            "{{\"what\": \"{what}\", \"by\": \"{by}\", \"octets\": {octets}, \"messages\": {messages}, \"ms\": {milliseconds:.3}}}"
        );
    }
}
