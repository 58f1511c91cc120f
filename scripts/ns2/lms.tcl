# LMS by the agents of its author: static repliers, one loss on the link of the source.

source [file join [file dirname [info script]] common.tcl]

# Not in the list of headers of ns-2.35: LMS would overwrite the common header.
add-packet-header Lms

# Receivers tell their round-trip time to a procedure that the script must have.
proc set_max_rtt {rtt} {}

set group [build_network LMS]

Agent/LMS/Sender set packetSize_ $message_bytes
set sender [new Agent/LMS/Sender]
$sender set dst_addr_ $group
$sender set dst_port_ 0
$ns attach-agent $node($source) $sender

set members {}
foreach i $receivers {
	set receiver [new Agent/LMS/Receiver]
	$receiver set dst_addr_ $group
	$receiver set dst_port_ 0
	$ns attach-agent $node($i) $receiver
	$ns at 0.01 "$node($i) join-group $receiver $group"
	lappend members $receiver
}

set loss [new LMSErrorModel]
$loss drop-packet $PT_CBR $once $lost
lose_on_link_of_source $loss

set application [application_of $sender $message_bytes]
# One set-up: routers learn the way to the source, receivers offer themselves as repliers.
$ns at 0.5 "$sender lms-setup"
$ns at $start "$application start"

proc report {} {
	global members
	foreach receiver $members {
		$receiver print-stats
	}
}
run_until_end report
