# SRM with fixed timers, one loss on the link of the source. A seventh argument is the time between
# the session messages of a member.

source [file join [file dirname [info script]] common.tcl]

Agent/SRM set C1_ 2.0
Agent/SRM set C2_ 2.0
Agent/SRM set D1_ 1.0
Agent/SRM set D2_ 1.0
Agent/SRM set sessionDelay_ [expr {$argc > 6 ? [lindex $argv 6] : 1.0}]

# A request that counts the first repair that answers it. Members that take a session message for
# a sign of a loss give up when the data comes, so only the message that was lost counts.
Class CountedRequest -superclass SRM/request
set recovered 0
CountedRequest instproc recv-repair {} {
	$self instvar eventID_ msgid_
	if {[info exists eventID_] && $msgid_ == $::lost} {
		incr ::recovered
	}
	$self next
}

set group [build_network ""]

foreach i [concat $source $receivers] {
	set member [new Agent/SRM]
	$member set dst_addr_ $group
	$member set dst_port_ 0
	$member set packetSize_ $message_bytes
	$member requestFunction CountedRequest
	$ns attach-agent $node($i) $member
	$ns at 0.01 "$member start"
	if {$i == $source} {
		set sender $member
	}
}

set loss [new SRMErrorModel]
$loss drop-packet $PT_CBR $once $lost
lose_on_link_of_source $loss

set application [application_of $sender $message_bytes]
$sender set app_fid_ 0
$ns at $start "$application start"

proc report {} {
	puts "\tPackets recovered:\t$::recovered"
}
run_until_end report
