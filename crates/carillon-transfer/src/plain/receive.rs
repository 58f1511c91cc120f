//! Receiver of plain sessions.

use std::collections::BTreeMap;
use std::time::Duration;

use carillon_core::{Application, BuildContext, Observer, PlainContents, Time};
use carillon_net::{DriveError, Driver};
use carillon_proto::plain::PlainReceiver;

use super::framing::Unpacker;
use super::{Framing, Plain, PlainLimits, PlainNews, PlainSource, context, plain_protocol};
use crate::network::Bound;
use crate::run_loop::Run;
use crate::tally::Tally;
use crate::{Error, Network};

/// Options of a plain receiver.
#[derive(Clone, Debug)]
pub struct PlainReceive {
    /// The protocol, by its name in the registry.
    pub protocol: String,
    /// Parameters of the protocol.
    pub settings: Vec<(String, String)>,
    /// Framing of the messages.
    pub framing: Framing,
    /// Bounds of the sources.
    pub limits: PlainLimits,
    /// Memory of each source, in bytes.
    pub memory: usize,
}

/// A running plain receiver, for [`run_to_end`](crate::run_loop::run_to_end). It has no end of its own.
pub struct PlainReceiveRun<O: Observer> {
    driver: Driver<PlainReceiver, Arrivals, Tally<O>>,
}

/// News for the caller.
struct Arrivals {
    framing: Framing,
    contents: PlainContents,
    unpackers: BTreeMap<PlainSource, Unpacker>,
    news: Vec<PlainNews>,
}

impl PlainReceive {
    /// Creates options with defaults.
    pub fn new(protocol: &str) -> Self {
        PlainReceive {
            protocol: protocol.to_owned(),
            settings: Vec::new(),
            framing: Framing::None,
            limits: PlainLimits::default(),
            memory: plain_protocol(protocol).map_or(0, |(_, sessions)| sessions.source_memory),
        }
    }

    /// Opens the sockets.
    pub fn bind(&self, network: &Network) -> Result<Bound, Error> {
        if network.key.is_some() {
            return Err(Error::SealedPlain);
        }
        network.open(true, 1, None)
    }

    /// Creates the receiver.
    pub fn open<O: Observer>(
        &self,
        Bound { endpoint, seeds, .. }: Bound,
        observer: O,
    ) -> Result<PlainReceiveRun<O>, Error> {
        let plain = Plain::new(&self.protocol, &self.settings, self.framing, &endpoint)?;
        let max_payload = plain.max_payload(endpoint.max_datagram().min(FRAME_DATAGRAM));
        let context = BuildContext { memory: self.memory, ..context(&endpoint, &seeds, None, max_payload)? };
        let receiver = PlainReceiver::new(plain.protocol, &context, &plain.config, self.limits.clone())?;
        let contents = plain.sessions.contents;
        let arrivals =
            Arrivals { framing: self.framing, contents, unpackers: BTreeMap::new(), news: Vec::new() };
        Ok(PlainReceiveRun {
            driver: Driver::new(endpoint, Box::new(receiver), arrivals, Tally::new(observer)),
        })
    }
}

impl<O: Observer> PlainReceiveRun<O> {
    /// Returns the news since the last call.
    pub fn take_news(&mut self) -> Vec<PlainNews> {
        std::mem::take(&mut self.driver.application_mut().news)
    }

    /// The driver.
    pub fn driver(&self) -> &Driver<PlainReceiver, impl Application<PlainReceiver>, Tally<O>> {
        &self.driver
    }

    /// Mutable access to the driver.
    pub fn driver_mut(&mut self) -> &mut Driver<PlainReceiver, impl Application<PlainReceiver>, Tally<O>> {
        &mut self.driver
    }

    /// Ends the run and returns its observer.
    pub fn into_observer(self) -> O {
        self.driver.into_parts().3.inner
    }
}

impl<O: Observer> Run for PlainReceiveRun<O> {
    fn step(&mut self, wait: Duration) -> Result<(), DriveError> {
        self.driver.step(wait)
    }

    fn update(&mut self) {}

    fn is_over(&self) -> bool {
        false
    }

    fn needs_final_step(&self) -> bool {
        false
    }

    fn quit(&mut self, _reason: &str) {}
}

impl Application<PlainReceiver> for Arrivals {
    fn poll(&mut self, _now: Time, machine: &mut PlainReceiver) -> bool {
        let before = self.news.len();
        while let Some(news) = machine.poll_news() {
            self.add(news);
        }
        self.news.len() > before
    }
}

impl Arrivals {
    fn add(&mut self, news: PlainNews) {
        match news {
            PlainNews::Message { source, number, payload } => {
                if let Some(unpacker) = Unpacker::new(self.framing, self.contents) {
                    let messages =
                        self.unpackers.entry(source).or_insert(unpacker).add(number, &payload).into_iter();
                    self.news.extend(messages.map(|payload| PlainNews::Message { source, number, payload }));
                } else {
                    self.news.push(PlainNews::Message { source, number, payload });
                }
            }
            news => {
                if let PlainNews::Closed { source, .. } = news {
                    let rest = self.unpackers.remove(&source).and_then(|mut unpacker| unpacker.finish());
                    self.news.extend(rest.map(|payload| PlainNews::Message { source, number: 0, payload }));
                }
                self.news.push(news);
            }
        }
    }
}

/// Usual maximum of a datagram, by which the memory of a source is counted in packets.
const FRAME_DATAGRAM: usize = 1472;
