//! Table of the daemon's connections, with limits per process and user and counters of refusals.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use carillon_net::Waker;
use carillon_wire::daemon::{FieldList, Frame, Role};

use super::connection::Connection;
use super::limits;
use super::options::DaemonOptions;
use super::settings::nanos;
use crate::socket::Socket;

/// The connections of a daemon.
#[derive(Debug)]
pub(super) struct ClientTable {
    options: DaemonOptions,
    table: Mutex<BTreeMap<u64, Arc<ClientSlot>>>,
    served: AtomicU64,
    refused: [AtomicU64; Refusal::VARIANTS.len()],
    stopping: AtomicBool,
    /// Wakes the thread that accepts connections.
    waker: Waker,
    pub began: Instant,
}

/// A connection of the table.
#[derive(Debug)]
pub(super) struct ClientSlot {
    pub number: u64,
    pub process: i32,
    pub user: u32,
    pub began: Instant,
    waker: Waker,
    /// Purpose of the connection, once it is known.
    open: Mutex<Option<Open>>,
    /// Set when the connection must end to make room, because it has not stated its purpose.
    displaced: AtomicBool,
    messages: AtomicU64,
    bytes: AtomicU64,
}

/// Purpose of a connection: a socket or a command.
#[derive(Clone, Debug)]
pub(super) struct Open {
    pub role: Role,
    pub group: String,
    pub name: String,
    pub protocol: String,
}

/// Reason for refusing or ending a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Refusal {
    /// The maximum number of sockets is open.
    Full,
    /// The process or the user has its maximum number of sockets.
    Greedy,
    /// The connection sent a malformed frame.
    Malformed,
    /// The connection stated no purpose within the time limit.
    Late,
    /// The request cannot be fulfilled.
    Wrong,
    /// The program closed the connection in the middle of a session, or was killed.
    Vanished,
    /// The system refused a resource.
    System,
}

impl Refusal {
    pub const VARIANTS: [Refusal; 7] = [
        Refusal::Full,
        Refusal::Greedy,
        Refusal::Malformed,
        Refusal::Late,
        Refusal::Wrong,
        Refusal::Vanished,
        Refusal::System,
    ];

    pub fn name(self) -> &'static str {
        match self {
            Refusal::Full => "full",
            Refusal::Greedy => "greedy",
            Refusal::Malformed => "malformed",
            Refusal::Late => "late",
            Refusal::Wrong => "wrong",
            Refusal::Vanished => "vanished",
            Refusal::System => "system",
        }
    }
}

impl ClientTable {
    pub fn new(options: DaemonOptions, waker: Waker) -> Self {
        ClientTable {
            options,
            table: Mutex::default(),
            served: AtomicU64::new(0),
            refused: Default::default(),
            stopping: AtomicBool::new(false),
            waker,
            began: Instant::now(),
        }
    }

    /// Adds a connection without a purpose so far. Such connections never block others: beyond the limit the oldest
    /// one of the user with most of them is displaced, so that `status` and `stop` are always served.
    pub fn sit(&self, process: i32, user: u32, waker: Waker) -> Result<Arc<ClientSlot>, (Refusal, String)> {
        let mut table = self.lock();
        // Threads of displaced connections end soon; until then they count here.
        if table.len() >= self.options.clients + MAX_UNOPENED + MAX_DISPLACED {
            return Err(self.full());
        }
        self.make_room(&table, process, user);
        let number = self.served.fetch_add(1, Ordering::Relaxed);
        let slot = Arc::new(ClientSlot {
            number,
            process,
            user,
            began: Instant::now(),
            waker,
            open: Mutex::default(),
            displaced: AtomicBool::new(false),
            messages: AtomicU64::new(0),
            bytes: AtomicU64::new(0),
        });
        table.insert(number, slot.clone());
        Ok(slot)
    }

    /// Displaces the oldest unopened connection of the process, the user or all, whichever has reached its limit.
    fn make_room(&self, table: &BTreeMap<u64, Arc<ClientSlot>>, process: i32, user: u32) {
        let unopened = || table.values().filter(|slot| slot.is_unopened());
        let displace = |slot: &ClientSlot, refusal: Refusal| {
            slot.displaced.store(true, Ordering::Release);
            slot.waker.wake();
            self.count(refusal);
        };
        if unopened().filter(|slot| slot.process == process).count() >= MAX_UNOPENED_PER_PROCESS
            && let Some(oldest) = unopened().find(|slot| slot.process == process)
        {
            displace(oldest, Refusal::Greedy);
        }
        if unopened().filter(|slot| slot.user == user).count() >= MAX_UNOPENED_PER_USER
            && let Some(oldest) = unopened().find(|slot| slot.user == user)
        {
            displace(oldest, Refusal::Greedy);
        }
        if unopened().count() >= MAX_UNOPENED {
            let count = |user: u32| unopened().filter(|slot| slot.user == user).count();
            // The first of equal ones is the oldest.
            if let Some(oldest) = unopened().rev().max_by_key(|slot| count(slot.user)) {
                displace(oldest, Refusal::Full);
            }
        }
    }

    /// Sets the purpose of a connection, if the limits permit another socket.
    pub fn occupy(&self, slot: &ClientSlot, role: Role, socket: &Socket) -> Result<(), (Refusal, String)> {
        let table = self.lock();
        let open = |of: &dyn Fn(&ClientSlot) -> bool| {
            table.values().filter(|other| of(other) && other.open().is_some()).count()
        };
        if open(&|_| true) >= self.options.clients {
            return Err(self.full());
        }
        if open(&|other| other.process == slot.process) >= self.options.per_client {
            return Err(self.greedy());
        }
        let most = self.options.user_limit();
        if open(&|other| other.user == slot.user) >= most {
            let text =
                format!("user {} has {most} sockets open, the maximum per user (--per-user)", slot.user);
            return Err((Refusal::Greedy, text));
        }
        *lock(&slot.open) = Some(Open {
            role,
            group: socket.network.group.to_string(),
            name: socket.network.name(),
            protocol: match role {
                Role::Connect => socket.what.options.protocol.clone(),
                _ => String::new(),
            },
        });
        Ok(())
    }

    /// Removes a connection.
    pub fn leave(&self, slot: &ClientSlot) {
        self.lock().remove(&slot.number);
        if self.is_stopping() {
            self.wake();
        }
    }

    /// Number of other connections.
    pub fn others(&self, slot: &ClientSlot) -> usize {
        self.lock().keys().filter(|number| **number != slot.number).count()
    }

    /// Every connection.
    pub fn all(&self) -> Vec<Arc<ClientSlot>> {
        self.lock().values().cloned().collect()
    }

    pub fn is_empty(&self) -> bool {
        self.lock().is_empty()
    }

    /// Requests the end of all connections.
    pub fn stop(&self) {
        self.stopping.store(true, Ordering::Release);
        self.wake();
    }

    pub fn is_stopping(&self) -> bool {
        self.stopping.load(Ordering::Acquire)
    }

    fn wake(&self) {
        self.waker.wake();
        self.lock().values().for_each(|slot| slot.waker.wake());
    }

    pub fn count(&self, refusal: Refusal) {
        self.refused[refusal as usize].fetch_add(1, Ordering::Relaxed);
    }

    pub fn refused(&self, refusal: Refusal) -> u64 {
        self.refused[refusal as usize].load(Ordering::Relaxed)
    }

    pub fn served(&self) -> u64 {
        self.served.load(Ordering::Relaxed)
    }

    fn full(&self) -> (Refusal, String) {
        (Refusal::Full, format!("{} sockets are open here{}", self.options.clients, limits::LIMIT_REACHED))
    }

    fn greedy(&self) -> (Refusal, String) {
        let most = self.options.per_client;
        (Refusal::Greedy, format!("this process has {most} sockets open, the maximum per process"))
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<u64, Arc<ClientSlot>>> {
        lock(&self.table)
    }

    /// Writes the open sockets and the refusal counters as PART frames.
    pub fn tell(&self, connection: &mut Connection) {
        for slot in self.all() {
            let Some(open) = slot.open() else { continue };
            let list = FieldList::new()
                .with("is", "socket")
                .with("process", slot.process.to_string())
                .with("user", slot.user.to_string())
                .with("role", open.role.name())
                .with("group", open.group)
                .with("name", open.name)
                .with("protocol", open.protocol)
                .with("messages", slot.messages().to_string())
                .with("bytes", slot.bytes().to_string())
                .with("time", nanos(slot.began.elapsed()));
            connection.push(&Frame::Part(list.fields()));
        }
        for refusal in Refusal::VARIANTS {
            let list = FieldList::new().with("is", "refused").with("why", refusal.name());
            connection.push(&Frame::Part(list.with("count", self.refused(refusal).to_string()).fields()));
        }
        let rest = FieldList::new()
            .with("process", std::process::id().to_string())
            .with("version", env!("CARGO_PKG_VERSION"))
            .with("time", nanos(self.began.elapsed()))
            .with("connections", self.served().to_string());
        connection.push(&Frame::Report(rest.fields()));
    }
}

impl ClientSlot {
    /// Purpose of the connection, once it is known.
    pub fn open(&self) -> Option<Open> {
        lock(&self.open).clone()
    }

    /// Returns true if the connection was displaced before it stated its purpose.
    pub fn is_displaced(&self) -> bool {
        self.displaced.load(Ordering::Acquire)
    }

    fn is_unopened(&self) -> bool {
        self.open().is_none() && !self.is_displaced()
    }

    /// Counts a message of this many bytes.
    pub fn count(&self, bytes: usize) {
        self.messages.fetch_add(1, Ordering::Relaxed);
        self.bytes.fetch_add(bytes as u64, Ordering::Relaxed);
    }

    pub fn messages(&self) -> u64 {
        self.messages.load(Ordering::Relaxed)
    }

    pub fn bytes(&self) -> u64 {
        self.bytes.load(Ordering::Relaxed)
    }

    /// Returns true if the program may stop the daemon: it runs as the daemon's user or as root.
    pub fn may_stop(&self) -> bool {
        self.user == 0 || self.user == nix::unistd::geteuid().as_raw()
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Maximum number of connections that have not stated their purpose.
const MAX_UNOPENED: usize = 16;
/// Maximum number of such connections of one process.
const MAX_UNOPENED_PER_PROCESS: usize = 4;
/// Maximum number of such connections of one user.
const MAX_UNOPENED_PER_USER: usize = 8;
/// Maximum number of displaced connections with a running thread.
const MAX_DISPLACED: usize = 64;
