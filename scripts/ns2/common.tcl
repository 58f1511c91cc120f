# What the runs of all three agents share: the network of a topology file, with trees that stand from
# the first packet on, and a source that sends messages of 1000 bytes.
#
#   ns AGENT.tcl EDGES ROLES START MESSAGES END LOST
#
# Times are seconds of the simulation; LOST is the message that is lost, counted from zero.

if {$argc < 6} {
	puts stderr "usage: ns AGENT.tcl EDGES ROLES START MESSAGES END LOST"
	exit 2
}
foreach {edges_file roles_file start messages end lost} $argv break

set message_bytes 1000
set messages_per_second 10
set link_rate 1.5Mb

# Of the packet types that C++ knows by number, the error models want that of a constant bit rate.
set PT_CBR 2
# "Each so many packets one", so many that it is once in a run.
set once 1000000

# Lines of a file, as lists of words.
proc words_of {name} {
	set file [open $name r]
	set lines [split [string trim [read $file]] "\n"]
	close $file
	return $lines
}

set receivers {}
foreach line [words_of $roles_file] {
	switch -- [lindex $line 0] {
		nodes { set nodes [lindex $line 1] }
		source { set source [lindex $line 1] }
		receiver { lappend receivers [lindex $line 1] }
	}
}

# Nodes and links. `module` is what routers need beside multicast: LMS, PGM or nothing.
proc build_network {module} {
	global ns node nodes edges_file link_rate
	set ns [new Simulator -multicast on]
	if {$module != ""} {
		$ns node-config -$module ON
	}
	for {set i 0} {$i < $nodes} {incr i} {
		set node($i) [$ns node]
	}
	foreach line [words_of $edges_file] {
		foreach {a b delay} $line break
		$ns duplex-link $node($a) $node($b) $link_rate ${delay}ms DropTail
		# Ways of least delay; without this, of fewest links.
		$ns cost $node($a) $node($b) $delay
		$ns cost $node($b) $node($a) $delay
	}
	# As shipped, each source floods the network every half second, which would be measured instead.
	DM set CacheMissMode dvmrp
	DM set PruneTimeout 1.0e6
	$ns mrtproto DM {}
	return [Node allocaddr]
}

# The source's one link loses what `model` picks.
proc lose_on_link_of_source {model} {
	global ns node source
	set neighbours [$node($source) neighbors]
	if {[llength $neighbours] != 1} {
		puts stderr "the source has [llength $neighbours] links, not one"
		exit 2
	}
	$model drop-target [$ns set nullAgent_]
	$ns lossmodel $model $node($source) [lindex $neighbours 0]
}

# An application at `agent` that offers the messages; `bytes` is what the agent is told.
proc application_of {agent bytes} {
	global messages_per_second messages
	set application [new Application/Traffic/CBR]
	$application set packetSize_ $bytes
	$application set rate_ [expr {$bytes * 8 * $messages_per_second}]
	$application set random_ 0
	$application set maxpkts_ $messages
	$application attach-agent $agent
	return $application
}

# Runs until `end`, then reports by `report`.
proc run_until_end {report} {
	global ns end
	$ns at $end "$report; flush stdout; exit 0"
	$ns run
}
