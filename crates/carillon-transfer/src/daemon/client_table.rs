//! Who is connected to the daemon, how many may be, and what was refused.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use carillon_net::Waker;
use carillon_wire::daemon::{FieldList, Frame, Role};

use super::connection::Connection;
use super::options::DaemonOptions;
use super::settings::nanos;
use crate::socket::Socket;

/// The connections of a daemon.
#[derive(Debug)]
pub(super) struct ClientTable {
    options: DaemonOptions,
    table: Mutex<BTreeMap<u64, Arc<ClientSlot>>>,
    served: AtomicU64,
    refused: [AtomicU64; Refusal::ALL.len()],
    stopping: AtomicBool,
    /// ThreadWaker the thread that accepts.
    waker: Waker,
    pub began: Instant,
}

/// One connection.
#[derive(Debug)]
pub(super) struct ClientSlot {
    pub number: u64,
    pub process: i32,
    pub user: u32,
    pub began: Instant,
    waker: Waker,
    /// What it is for, once that is known.
    open: Mutex<Option<Open>>,
    /// It has to end because it has not said what it is for, and others came.
    displaced: AtomicBool,
    messages: AtomicU64,
    bytes: AtomicU64,
}

/// What a connection is for.
#[derive(Clone, Debug)]
pub(super) struct Open {
    pub role: Role,
    pub group: String,
    pub name: String,
    pub protocol: String,
}

/// Why somebody is not served, or not any more.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Refusal {
    /// As many as may be are connected.
    Full,
    /// One process or one user has as many connections as it may have.
    Greedy,
    /// What came is not what is spoken here.
    Malformed,
    /// Nothing was asked for in time.
    Late,
    /// What was asked for cannot be.
    Wrong,
    /// It went away in the middle of a session, killed or not.
    Vanished,
    /// The system has refused something.
    System,
}

impl Refusal {
    pub const ALL: [Refusal; 7] = [
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

    /// Takes a connection that has not said yet what it is for. Such connections never keep others out: if there are too
    /// many, the oldest of whoever has most of them is displaced, so that `status` and `stop` are always served.
    pub fn sit(&self, process: i32, user: u32, waker: Waker) -> Result<Arc<ClientSlot>, (Refusal, String)> {
        let mut table = self.lock();
        // The threads of displaced connections end at once, but not before this.
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

    /// Displaces the oldest unopened connections of a process, of a user or of all that have as many as they may.
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
            // Of equals the first, which is the oldest.
            if let Some(oldest) = unopened().rev().max_by_key(|slot| count(slot.user)) {
                displace(oldest, Refusal::Full);
            }
        }
    }

    /// It is for this, if so many may be.
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
                format!("user {} has {most} sockets open here, and no more may be (--per-user)", slot.user);
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

    /// It is free again.
    pub fn leave(&self, slot: &ClientSlot) {
        self.lock().remove(&slot.number);
        if self.is_stopping() {
            self.wake();
        }
    }

    /// How many others are connected.
    pub fn others(&self, slot: &ClientSlot) -> usize {
        self.lock().keys().filter(|number| **number != slot.number).count()
    }

    /// Everybody who is connected.
    pub fn all(&self) -> Vec<Arc<ClientSlot>> {
        self.lock().values().cloned().collect()
    }

    pub fn is_empty(&self) -> bool {
        self.lock().is_empty()
    }

    /// Everybody is to end.
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
        (Refusal::Full, format!("{} sockets are open here{}", self.options.clients, super::LIMIT_REACHED))
    }

    fn greedy(&self) -> (Refusal, String) {
        let most = self.options.per_client;
        (Refusal::Greedy, format!("this process has {most} sockets open here, and no more may be"))
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<u64, Arc<ClientSlot>>> {
        lock(&self.table)
    }

    /// SenderEvent who has which, and what was refused.
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
        for refusal in Refusal::ALL {
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
    /// What it is for, once that is known.
    pub fn open(&self) -> Option<Open> {
        lock(&self.open).clone()
    }

    /// Whether it has to end because others came before it said what it is for.
    pub fn is_displaced(&self) -> bool {
        self.displaced.load(Ordering::Acquire)
    }

    fn is_unopened(&self) -> bool {
        self.open().is_none() && !self.is_displaced()
    }

    /// A message went through it.
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

    /// Whether its program may end the daemon: its own user may, and root.
    pub fn may_stop(&self) -> bool {
        self.user == 0 || self.user == nix::unistd::geteuid().as_raw()
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Maximum number of connections that have not said yet what they are for.
const MAX_UNOPENED: usize = 16;
/// Those of one process.
const MAX_UNOPENED_PER_PROCESS: usize = 4;
/// Those of one user.
const MAX_UNOPENED_PER_USER: usize = 8;
/// Maximum number of displaced connections whose threads have not ended.
const MAX_DISPLACED: usize = 64;
