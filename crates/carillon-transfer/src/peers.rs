//! The other members of a session, for those who take part and do not organise.

use carillon_core::{Application, NodeId, Observer};
use carillon_net::Driver;
use carillon_proto::session::ReceiverSession;

/// Has the endpoint keep the addresses of the members a session now knows, whoever else is heard.
pub(crate) fn keep_peers<A, O>(driver: &mut Driver<ReceiverSession, A, O>)
where
    A: Application<ReceiverSession>,
    O: Observer,
{
    let now = driver.now();
    let nodes: Vec<NodeId> = driver.machine().roster().iter().map(|peer| peer.node).collect();
    for node in nodes {
        if let Some(address) = driver.endpoint().peer(node) {
            // Known, so there is room for it.
            let _ = driver.endpoint_mut().keep_peer(now, address);
        }
    }
}

/// Members that are gone: names and reasons.
pub(crate) fn lost(session: &ReceiverSession) -> Vec<(String, String)> {
    let lost = session.peers().iter().filter_map(|peer| Some((peer.name.clone(), peer.lost.clone()?)));
    lost.collect()
}
