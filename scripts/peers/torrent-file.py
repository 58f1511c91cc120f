"""A file by BitTorrent, with libtorrent; the sender is the first seed, receivers share what they have.

    torrent-file.py make FILE TORRENT ANNOUNCE PIECE
    torrent-file.py send FILE TORRENT ADDRESS
    torrent-file.py recv FILE TORRENT ADDRESS

The first prints the hash that trackers know it by. ADDRESS is the interface's, FILE the file itself, as a receiver will
have it. A receiver says READY when the tracker has answered it, and when it has the whole file, verified, DONE with the
time of the monotonic clock; it stays and shares it. With READY and the sender's START goes the processor time until
then.
"""

import os
import signal
import sys
import time

import libtorrent

# Nothing but the tracker finds peers; all are unchoked and asked for much at a time, at once.
SETTINGS = {
    "enable_dht": False,
    "enable_lsd": False,
    "enable_upnp": False,
    "enable_natpmp": False,
    "enable_incoming_utp": False,
    "enable_outgoing_utp": False,
    "out_enc_policy": 2,
    "in_enc_policy": 2,
    "smooth_connects": False,
    "connection_speed": 500,
    "torrent_connect_boost": 200,
    "unchoke_slots_limit": -1,
    "peer_timeout": 20,
    "max_out_request_queue": 1500,
    "max_allowed_in_request_queue": 5000,
    "send_buffer_watermark": 4 << 20,
    "send_buffer_low_watermark": 1 << 20,
    "recv_socket_buffer_size": 4 << 20,
    "send_socket_buffer_size": 4 << 20,
    "alert_mask": libtorrent.alert.category_t.tracker_notification | libtorrent.alert.category_t.status_notification,
}


def say(what: str) -> None:
    print(f"{what} {time.monotonic():.6f} {time.process_time():.3f}", flush=True)


def make(file: str, torrent: str, announce: str, piece: str) -> None:
    storage = libtorrent.file_storage()
    storage.add_file(os.path.basename(file), os.path.getsize(file))
    made = libtorrent.create_torrent(storage, int(piece), libtorrent.create_torrent.v1_only)
    made.add_tracker(announce)
    libtorrent.set_piece_hashes(made, os.path.dirname(file))
    with open(torrent, "wb") as out:
        out.write(libtorrent.bencode(made.generate()))
    print(libtorrent.torrent_info(torrent).info_hash())


def share(role: str, file: str, torrent: str, address: str) -> None:
    session = libtorrent.session({**SETTINGS, "listen_interfaces": f"{address}:6881"})
    what = libtorrent.add_torrent_params()
    what.ti = libtorrent.torrent_info(torrent)
    what.save_path = os.path.dirname(file)
    what.renamed_files = {0: os.path.basename(file)}
    what.flags &= ~(libtorrent.torrent_flags.auto_managed | libtorrent.torrent_flags.paused)
    if role == "send":
        what.flags |= libtorrent.torrent_flags.seed_mode
        say("START")
    handle = session.add_torrent(what)
    ready = done = role == "send"
    while True:
        session.wait_for_alert(100)
        for alert in session.pop_alerts():
            if isinstance(alert, libtorrent.tracker_reply_alert) and not ready:
                ready = True
                say("READY")
            elif isinstance(alert, libtorrent.torrent_finished_alert) and not done:
                done = True
                # What is still on its way to the file is there afterwards.
                handle.flush_cache()
            elif isinstance(alert, libtorrent.cache_flushed_alert):
                say("DONE")


def main() -> None:
    signal.signal(signal.SIGTERM, lambda *_: os._exit(0))
    role, *rest = sys.argv[1:]
    if role == "make":
        make(*rest)
    else:
        share(role, *rest)


if __name__ == "__main__":
    main()
