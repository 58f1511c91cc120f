//! Large groups on a shared medium.

use crate::on_lan::{self, mean};

#[test]
fn large_group_is_not_polled_faster_than_it_can_answer() {
    // Polling faster than the answers get through once caused 51 packets without a message per message.
    let result = on_lan::run("receivers = 700", "name = \"carillon\"", 0.01, 150, "");
    assert!(result.messages.iter().all(|message| !message.failed));
    let control = mean(&result, "control_packets_per_message");
    assert!(control < 40.0, "{control} control packets for each message");
}
