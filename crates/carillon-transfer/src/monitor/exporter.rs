//! A small HTTP server for whoever fetches numbers.
//!
//! One thread of its own, of which nothing that is delivered knows. It says one thing, takes a few connections at a time,
//! and gives each a few seconds and a few kilobytes: whoever is slow, sends nonsense, or comes with many keeps others
//! from the numbers at worst, and only for as long.

use std::collections::VecDeque;
use std::io::{self, Read as _, Write as _};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};

/// Serves `GET /metrics`. Dropped, it stops.
#[derive(Debug)]
pub struct Exporter {
    address: SocketAddr,
    /// Closed, it tells the thread to end.
    stop: Option<UnixStream>,
    thread: Option<JoinHandle<()>>,
}

impl Exporter {
    /// Listens at this address (of port 0: at any free one), and serves what the source gives: a tenth of a second later
    /// whoever asks gets the same. There are no keys: whoever reaches the address reads the names of all members.
    pub fn start(address: SocketAddr, source: impl Fn() -> String + Send + 'static) -> io::Result<Exporter> {
        let listener = TcpListener::bind(address)?;
        listener.set_nonblocking(true)?;
        let address = listener.local_addr()?;
        let (stop, stopped) = UnixStream::pair()?;
        let mut server =
            Server { listener, stopped, source: Box::new(source), page: None, clients: VecDeque::new() };
        let builder = thread::Builder::new().name("carillon-metrics".to_owned());
        let thread = builder.spawn(move || while server.turn() {})?;
        Ok(Exporter { address, stop: Some(stop), thread: Some(thread) })
    }

    /// Where it listens.
    #[must_use]
    pub fn address(&self) -> SocketAddr {
        self.address
    }
}

impl Drop for Exporter {
    fn drop(&mut self) {
        self.stop = None;
        if let Some(thread) = self.thread.take() {
            // One that has panicked serves nobody either.
            let _ = thread.join();
        }
    }
}

struct Server {
    listener: TcpListener,
    stopped: UnixStream,
    source: Box<dyn Fn() -> String + Send>,
    /// What was served last, and when it was made.
    page: Option<(Instant, Arc<str>)>,
    /// The longest there first.
    clients: VecDeque<HttpClient>,
}

/// A connection.
struct HttpClient {
    stream: TcpStream,
    until: Instant,
    request: Vec<u8>,
    /// What it is answered: the head, and what follows it.
    answer: Option<(String, Arc<str>)>,
    /// Bytes of it that are gone.
    gone: usize,
}

impl Server {
    /// Waits for something to do, and does it; whether to go on.
    fn turn(&mut self) -> bool {
        let now = Instant::now();
        let wait =
            self.clients.front().map_or(MAX_WAIT, |client| client.until.saturating_duration_since(now));
        let ready = {
            let mut fds =
                vec![PollFd::new(&self.stopped, PollFlags::IN), PollFd::new(&self.listener, PollFlags::IN)];
            fds.extend(self.clients.iter().map(|client| {
                let wanted = if client.answer.is_some() { PollFlags::OUT } else { PollFlags::IN };
                PollFd::new(&client.stream, wanted)
            }));
            let timeout = Timespec { tv_sec: wait.as_secs() as _, tv_nsec: wait.subsec_nanos() as _ };
            if poll(&mut fds, Some(&timeout)).is_err() {
                thread::sleep(ACCEPT_RETRY_INTERVAL);
            }
            fds.iter().map(|fd| !fd.revents().is_empty()).collect::<Vec<_>>()
        };
        if ready.first() == Some(&true) {
            return false;
        }
        let now = Instant::now();
        let mut clients = std::mem::take(&mut self.clients);
        for (client, ready) in clients.iter_mut().zip(ready.iter().skip(2)) {
            if *ready && !self.serve(client, now) {
                client.until = now;
            }
        }
        clients.retain(|client| client.until > now);
        self.clients = clients;
        if ready.get(1) == Some(&true) {
            self.accept(now);
        }
        // However many come, this thread takes so many turns a second.
        thread::sleep(POLL_INTERVAL);
        true
    }

    fn accept(&mut self, now: Instant) {
        for _ in 0..MAX_CONNECTIONS {
            match self.listener.accept() {
                Ok((stream, _)) if stream.set_nonblocking(true).is_ok() => {
                    if self.clients.len() == MAX_CONNECTIONS {
                        self.clients.pop_front();
                    }
                    let client = HttpClient {
                        stream,
                        until: now + REQUEST_TIMEOUT,
                        request: Vec::new(),
                        answer: None,
                        gone: 0,
                    };
                    self.clients.push_back(client);
                }
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return,
                // Out of descriptors, perhaps: later.
                _ => return thread::sleep(ACCEPT_RETRY_INTERVAL),
            }
        }
    }

    /// Reads or writes as much as there is; whether it is to stay.
    fn serve(&mut self, client: &mut HttpClient, now: Instant) -> bool {
        if client.answer.is_none() {
            let mut bytes = [0; 2048];
            match client.stream.read(&mut bytes) {
                Ok(0) => return false,
                Ok(len) => client.request.extend_from_slice(bytes.get(..len).unwrap_or_default()),
                Err(error) => return passes(&error),
            }
            client.answer = match Asked::of(&client.request) {
                Asked::NotYet => return true,
                Asked::Metrics { body } => {
                    let page = self.page(now);
                    let head = head("200 OK", FORMAT, page.len());
                    Some((head, if body { page } else { "".into() }))
                }
                Asked::Wrong(status) => {
                    let body = format!("{status}: GET /metrics is what there is\n");
                    Some((head(status, "text/plain; charset=utf-8", body.len()), body.into()))
                }
            };
        }
        let Some((head, body)) = &client.answer else { return true };
        loop {
            let rest = match client.gone.checked_sub(head.len()) {
                Some(gone) => body.as_bytes().get(gone..),
                None => head.as_bytes().get(client.gone..),
            };
            match rest.filter(|rest| !rest.is_empty()) {
                None => return false,
                Some(rest) => match client.stream.write(rest) {
                    Ok(len) => client.gone += len,
                    Err(error) => return passes(&error),
                },
            }
        }
    }

    /// What there is to tell: of now, or of a moment ago.
    fn page(&mut self, now: Instant) -> Arc<str> {
        match &self.page {
            Some((made, page)) if now.saturating_duration_since(*made) < PAGE_LIFETIME => page.clone(),
            _ => {
                let page: Arc<str> = (self.source)().into();
                self.page = Some((now, page.clone()));
                page
            }
        }
    }
}

/// What a client wants.
#[derive(Debug, PartialEq, Eq)]
enum Asked {
    /// It has not said all.
    NotYet,
    Metrics {
        /// Not only the head of the answer.
        body: bool,
    },
    /// Something else: the status that says so.
    Wrong(&'static str),
}

impl Asked {
    /// The first line is what counts; what follows the head of a request is not read.
    fn of(request: &[u8]) -> Asked {
        let ends = |end: &[u8]| request.windows(end.len()).any(|bytes| bytes == end);
        if !ends(b"\r\n\r\n") && !ends(b"\n\n") {
            let long = request.len() > MAX_REQUEST_BYTES;
            return if long { Asked::Wrong("431 Request Header Fields Too Large") } else { Asked::NotYet };
        }
        let line = request.split(|&byte| byte == b'\n').next().unwrap_or_default();
        let line = std::str::from_utf8(line).unwrap_or_default();
        let words: Vec<&str> = line.trim_end_matches('\r').split(' ').collect();
        let [method, target, version] = words[..] else { return Asked::Wrong("400 Bad Request") };
        let is_word = !method.is_empty() && method.bytes().all(|byte| byte.is_ascii_uppercase());
        if !is_word || !target.starts_with('/') || !version.starts_with("HTTP/1.") {
            return Asked::Wrong("400 Bad Request");
        }
        match (method, target.split('?').next()) {
            ("GET", Some("/metrics")) => Asked::Metrics { body: true },
            ("HEAD", Some("/metrics")) => Asked::Metrics { body: false },
            ("GET" | "HEAD", _) => Asked::Wrong("404 Not Found"),
            _ => Asked::Wrong("405 Method Not Allowed"),
        }
    }
}

fn head(status: &str, kind: &str, len: usize) -> String {
    let allow = if status.starts_with("405") { "Allow: GET, HEAD\r\n" } else { "" };
    format!(
        "HTTP/1.1 {status}\r\nContent-Type: {kind}\r\nContent-Length: {len}\r\n{allow}Connection: close\r\n\r\n"
    )
}

/// Whether it is worth trying again.
fn passes(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted)
}

/// What the answer is.
const FORMAT: &str = "text/plain; version=0.0.4; charset=utf-8";
/// Connections at a time: the one that was there longest makes room.
const MAX_CONNECTIONS: usize = 16;
/// Each has so long to ask and to take the answer.
const REQUEST_TIMEOUT: Duration = Duration::from_secs(5);
/// Bytes of a request.
const MAX_REQUEST_BYTES: usize = 8 << 10;
/// The same page is served for so long.
const PAGE_LIFETIME: Duration = Duration::from_millis(100);
/// Between two turns.
const POLL_INTERVAL: Duration = Duration::from_millis(5);
/// After an error of the system's.
const ACCEPT_RETRY_INTERVAL: Duration = Duration::from_millis(100);
/// As long as nobody is there.
const MAX_WAIT: Duration = Duration::from_secs(3600);

#[cfg(test)]
mod tests {
    use std::io::{Read as _, Write as _};
    use std::net::TcpStream;

    use super::*;

    fn ask(address: SocketAddr, request: &[u8]) -> String {
        let mut stream = TcpStream::connect(address).expect("it listens");
        stream.write_all(request).expect("it takes that");
        let mut answer = String::new();
        // A reset after the answer is the end of it too.
        let _ = stream.read_to_string(&mut answer);
        answer
    }

    fn exporter() -> Exporter {
        let local = SocketAddr::from(([127, 0, 0, 1], 0));
        Exporter::start(local, || "one 1\n".to_owned()).expect("a port")
    }

    #[test]
    fn exporter_serves_one_page_and_refuses_others() {
        let exporter = exporter();
        let status = |request: &str| {
            let answer = ask(exporter.address(), request.as_bytes());
            let (head, body) = answer.split_once("\r\n\r\n").expect("a head");
            let length = head
                .split("Content-Length: ")
                .nth(1)
                .and_then(|rest| rest.split("\r\n").next()?.parse().ok());
            if !request.starts_with("HEAD") {
                assert_eq!(length, Some(body.len()), "{answer}");
            }
            head.split(' ').nth(1).expect("a status").to_owned() + body.lines().next().unwrap_or_default()
        };
        assert_eq!(status("GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n"), "200one 1");
        assert_eq!(status("GET /metrics?x=1 HTTP/1.0\n\n"), "200one 1");
        assert_eq!(status("HEAD /metrics HTTP/1.1\r\n\r\n"), "200");
        for (request, expected) in [
            ("GET / HTTP/1.1\r\n\r\n", "404"),
            ("POST /metrics HTTP/1.1\r\n\r\n", "405"),
            ("GET /metrics\r\n\r\n", "400"),
            ("get /metrics HTTP/1.1\r\n\r\n", "400"),
            ("GET http://x/metrics HTTP/1.1\r\n\r\n", "400"),
            ("GET  /metrics HTTP/1.1\r\n\r\n", "400"),
            ("\r\n\r\n", "400"),
        ] {
            assert_eq!(&status(request)[..3], expected, "{request:?}");
        }
        let long = format!("GET /metrics HTTP/1.1\r\nX: {}", "x".repeat(2 * MAX_REQUEST_BYTES));
        // It may be reset before it is read: what counts is that it ends.
        let answer = ask(exporter.address(), long.as_bytes());
        assert!(answer.is_empty() || answer.starts_with("HTTP/1.1 431"), "{answer}");
    }

    #[test]
    fn silent_connections_block_no_request() {
        let exporter = exporter();
        let silent: Vec<TcpStream> = (0..3 * MAX_CONNECTIONS)
            .map(|_| TcpStream::connect(exporter.address()).expect("it listens"))
            .collect();
        for _ in 0..3 {
            assert!(ask(exporter.address(), b"GET /metrics HTTP/1.1\r\n\r\n").ends_with("one 1\n"));
        }
        drop(silent);
    }

    #[test]
    fn dropped_exporter_frees_the_port() {
        let exporter = exporter();
        let address = exporter.address();
        drop(exporter);
        assert!(TcpStream::connect(address).is_err());
    }

    #[test]
    fn random_bytes_never_break_the_exporter() {
        let mut rng = carillon_core::Seeds::new(1).stream("requests");
        for _ in 0..20_000 {
            let len = rng.below(60) as usize;
            let words: [&[u8]; 8] =
                [b"GET ", b"/metrics", b" HTTP/1.1", b"\r\n", b"\r\n\r\n", b"\n\n", b"?", b"\xff"];
            let mut request = Vec::new();
            while request.len() < len {
                match rng.below(9) as usize {
                    8 => request.push(rng.below(256) as u8),
                    at => request.extend_from_slice(words[at]),
                }
            }
            let _ = Asked::of(&request);
        }
    }
}
