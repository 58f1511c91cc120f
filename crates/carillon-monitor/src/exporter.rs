//! A small HTTP server for monitoring systems.
//!
//! It runs in a thread of its own and never delays a transfer. It serves one page to a few connections at a time,
//! each limited to a few seconds and kilobytes. A slow or hostile client can delay other clients, for that time only.

use std::collections::VecDeque;
use std::io::{self, Read as _, Write as _};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};

/// Serves `GET /metrics`. Dropping it stops the server.
#[derive(Debug)]
pub struct Exporter {
    address: SocketAddr,
    /// Closing this stream ends the thread.
    stop: Option<UnixStream>,
    thread: Option<JoinHandle<()>>,
}

impl Exporter {
    /// Listens at this address (port 0: any free port) and serves the text of `source`, cached for a tenth of a
    /// second. There is no authentication: every host that reaches the address can read the names of all members.
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

    /// Address of the server.
    #[must_use]
    pub fn address(&self) -> SocketAddr {
        self.address
    }
}

impl Drop for Exporter {
    fn drop(&mut self) {
        self.stop = None;
        if let Some(thread) = self.thread.take() {
            // A panicked thread serves no page either.
            let _ = thread.join();
        }
    }
}

struct Server {
    listener: TcpListener,
    stopped: UnixStream,
    source: Box<dyn Fn() -> String + Send>,
    /// Cached page and its time.
    page: Option<(Instant, Arc<str>)>,
    /// Connections, the oldest first.
    clients: VecDeque<HttpClient>,
}

/// A connection of a client.
struct HttpClient {
    stream: TcpStream,
    until: Instant,
    request: Vec<u8>,
    /// Head and body of the answer.
    answer: Option<(String, Arc<str>)>,
    /// Number of answer bytes written.
    gone: usize,
}

impl Server {
    /// Waits for an event and handles it; returns false at the end.
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
        // The stop stream was closed.
        if ready.first() == Some(&true) {
            return false;
        }
        let now = Instant::now();
        let mut clients = std::mem::take(&mut self.clients);
        for (client, ready) in clients.iter_mut().zip(ready.iter().skip(2)) {
            if *ready && !self.serve(client, now) {
                // Finished or failed connections expire at once.
                client.until = now;
            }
        }
        clients.retain(|client| client.until > now);
        self.clients = clients;
        if ready.get(1) == Some(&true) {
            self.accept(now);
        }
        // The pause bounds the rate of turns independent of the number of clients.
        thread::sleep(POLL_INTERVAL);
        true
    }

    fn accept(&mut self, now: Instant) {
        for _ in 0..MAX_CONNECTIONS {
            match self.listener.accept() {
                Ok((stream, _)) if stream.set_nonblocking(true).is_ok() => {
                    if self.clients.len() == MAX_CONNECTIONS {
                        // The oldest connection makes room.
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
                // The process may be out of file descriptors: retry later.
                _ => return thread::sleep(ACCEPT_RETRY_INTERVAL),
            }
        }
    }

    /// Reads or writes as much as possible; returns false when the connection is finished.
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

    /// Returns the cached page, or a new one if it is outdated.
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

/// A parsed request.
#[derive(Debug, PartialEq, Eq)]
enum Asked {
    /// The request is incomplete.
    NotYet,
    Metrics {
        /// False for HEAD.
        body: bool,
    },
    /// An unsupported request, with its HTTP status.
    Wrong(&'static str),
}

impl Asked {
    /// Parses the request line; the bytes behind the head are not read.
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

/// Returns true if the error is temporary.
fn passes(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted)
}

/// Content type of the page.
const FORMAT: &str = "text/plain; version=0.0.4; charset=utf-8";
/// Maximum number of connections; beyond it the oldest is closed.
const MAX_CONNECTIONS: usize = 16;
/// Maximum time of a connection.
const REQUEST_TIMEOUT: Duration = Duration::from_secs(5);
/// Maximum bytes of a request.
const MAX_REQUEST_BYTES: usize = 8 << 10;
/// Time for which a page is cached.
const PAGE_LIFETIME: Duration = Duration::from_millis(100);
/// Interval between two turns.
const POLL_INTERVAL: Duration = Duration::from_millis(5);
/// Pause after an error of the system.
const ACCEPT_RETRY_INTERVAL: Duration = Duration::from_millis(100);
/// Maximum wait while no client is connected.
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
        // A reset after the answer ends the exchange as well.
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
        // The connection may be reset before the answer is read; only its end matters.
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
