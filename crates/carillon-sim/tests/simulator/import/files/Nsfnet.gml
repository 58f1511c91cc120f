graph [
  node [
    id 0
    label "SEQSUINET, Rice University, Houston"
    Longitude -95.36
    Latitude 29.76
  ]
  node [
    id 1
    label "Jon Von Neumann Center, Princeton, NJ"
    Longitude -74.66
    Latitude 40.35
  ]
  node [
    id 2
    label "SURANET, Georgia Tech, Atlanta"
    Longitude -84.39
    Latitude 33.75
  ]
  node [
    id 3
    label "Pittsburgh Supercomputer Center"
    Longitude -80.0
    Latitude 40.44
  ]
  node [
    id 4
    label "Cornell Theory Center, Ithaca NY"
    Longitude -76.5
    Latitude 42.44
  ]
  node [
    id 5
    label "NorthWestNet, Seattle"
    Longitude -122.33
    Latitude 47.61
  ]
  node [
    id 6
    label "BARRnet, Palo Alto"
    Longitude -122.14
    Latitude 37.44
  ]
  node [
    id 7
    label "San Diego Supercomputer Center"
    Longitude -117.16
    Latitude 32.72
  ]
  node [
    id 8
    label "Westnet, Salt Lake City"
    Longitude -111.89
    Latitude 40.76
  ]
  node [
    id 9
    label "NCAR, Boulder"
    Longitude -105.27
    Latitude 40.01
  ]
  node [
    id 10
    label "MIDnet, Lincoln, NE"
    Longitude -96.67
    Latitude 40.8
  ]
  node [
    id 11
    label "NCSA, University of Illinois, Champaign"
    Longitude -88.24
    Latitude 40.12
  ]
  node [
    id 12
    label "Merit Univ of Michigan, Ann Arbor"
    Longitude -83.74
    Latitude 42.28
  ]
  edge [
    source 0
    target 2
  ]
  edge [
    source 0
    target 11
  ]
  edge [
    source 0
    target 7
  ]
  edge [
    source 1
    target 2
  ]
  edge [
    source 1
    target 4
  ]
  edge [
    source 3
    target 12
  ]
  edge [
    source 4
    target 12
  ]
  edge [
    source 5
    target 9
  ]
  edge [
    source 5
    target 6
  ]
  edge [
    source 6
    target 12
  ]
  edge [
    source 6
    target 7
  ]
  edge [
    source 8
    target 9
  ]
  edge [
    source 9
    target 11
  ]
  edge [
    source 10
    target 11
  ]
  edge [
    source 11
    target 12
  ]
]
