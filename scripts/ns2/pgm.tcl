# PGM: no back-off before a request, no delay before a repair, one loss on the link of the source.

source [file join [file dirname [info script]] common.tcl]

# The agents add a header of four words to what the application gives them.
set header_bytes 16

Agent/PGM/Receiver set nak_bo_ivl_ 0ms
Agent/PGM/Sender set rdata_delay_ 0ms
# Repeated after 50 ms, requests on longer ways would bring repairs that nobody needs.
Agent/PGM set nak_retrans_ival_ 1s

set group [build_network PGM]

set sender [new Agent/PGM/Sender]
$sender set dst_addr_ $group
$sender set dst_port_ 0
$ns attach-agent $node($source) $sender

set members {}
foreach i $receivers {
	set receiver [new Agent/PGM/Receiver]
	$ns attach-agent $node($i) $receiver
	$ns at 0.01 "$node($i) join-group $receiver $group"
	lappend members $receiver
}

# This model counts packets, from one on.
set loss [new PGMErrorModel]
$loss drop-packet ODATA $once [expr {$lost + 1}]
lose_on_link_of_source $loss

set application [application_of $sender [expr {$message_bytes - $header_bytes}]]
# The source's path messages tell each element the way up.
$ns at 0.5 "$sender start-SPM"
$ns at $start "$application start"

proc report {} {
	global members
	foreach receiver $members {
		$receiver print-stats
	}
}
run_until_end report
