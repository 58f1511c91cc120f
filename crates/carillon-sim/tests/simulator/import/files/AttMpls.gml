graph [
  node [
    id 0
    label "NY54"
    Longitude -74.01
    Latitude 40.71
  ]
  node [
    id 1
    label "CMBR"
    Longitude -71.11
    Latitude 42.38
  ]
  node [
    id 2
    label "CHCG"
    Longitude -87.65
    Latitude 41.85
  ]
  node [
    id 3
    label "CLEV"
    Longitude -81.7
    Latitude 41.5
  ]
  node [
    id 4
    label "RLGH"
    Longitude -78.64
    Latitude 35.77
  ]
  node [
    id 5
    label "ATLN"
    Longitude -84.39
    Latitude 33.75
  ]
  node [
    id 6
    label "PHLA"
    Longitude -75.16
    Latitude 39.95
  ]
  node [
    id 7
    label "WASH"
    Longitude -77.04
    Latitude 38.9
  ]
  node [
    id 8
    label "NSVL"
    Longitude -86.78
    Latitude 36.17
  ]
  node [
    id 9
    label "STLS"
    Longitude -90.2
    Latitude 38.63
  ]
  node [
    id 10
    label "NWOR"
    Longitude -90.08
    Latitude 29.95
  ]
  node [
    id 11
    label "HSTN"
    Longitude -95.36
    Latitude 29.76
  ]
  node [
    id 12
    label "SNAN"
    Longitude -98.49
    Latitude 29.42
  ]
  node [
    id 13
    label "DLLS"
    Longitude -96.81
    Latitude 32.78
  ]
  node [
    id 14
    label "ORLD"
    Longitude -81.38
    Latitude 28.54
  ]
  node [
    id 15
    label "DNVR"
    Longitude -104.98
    Latitude 39.74
  ]
  node [
    id 16
    label "KSCY"
    Longitude -94.63
    Latitude 39.11
  ]
  node [
    id 17
    label "SNFN"
    Longitude -122.42
    Latitude 37.77
  ]
  node [
    id 18
    label "SCRM"
    Longitude -121.49
    Latitude 38.58
  ]
  node [
    id 19
    label "PTLD"
    Longitude -122.68
    Latitude 45.52
  ]
  node [
    id 20
    label "STTL"
    Longitude -122.33
    Latitude 47.61
  ]
  node [
    id 21
    label "SLKC"
    Longitude -111.89
    Latitude 40.76
  ]
  node [
    id 22
    label "LA03"
    Longitude -118.24
    Latitude 34.05
  ]
  node [
    id 23
    label "SNDG"
    Longitude -117.16
    Latitude 32.72
  ]
  node [
    id 24
    label "PHNX"
    Longitude -112.07
    Latitude 33.45
  ]
  edge [
    source 0
    target 1
  ]
  edge [
    source 0
    target 2
  ]
  edge [
    source 0
    target 6
  ]
  edge [
    source 0
    target 7
  ]
  edge [
    source 1
    target 6
  ]
  edge [
    source 2
    target 3
  ]
  edge [
    source 2
    target 6
  ]
  edge [
    source 2
    target 9
  ]
  edge [
    source 2
    target 15
  ]
  edge [
    source 2
    target 16
  ]
  edge [
    source 2
    target 17
  ]
  edge [
    source 2
    target 20
  ]
  edge [
    source 2
    target 21
  ]
  edge [
    source 3
    target 8
  ]
  edge [
    source 3
    target 9
  ]
  edge [
    source 3
    target 6
  ]
  edge [
    source 4
    target 5
  ]
  edge [
    source 4
    target 7
  ]
  edge [
    source 5
    target 7
  ]
  edge [
    source 5
    target 8
  ]
  edge [
    source 5
    target 9
  ]
  edge [
    source 5
    target 13
  ]
  edge [
    source 5
    target 14
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
    source 8
    target 13
  ]
  edge [
    source 9
    target 13
  ]
  edge [
    source 9
    target 16
  ]
  edge [
    source 9
    target 22
  ]
  edge [
    source 10
    target 11
  ]
  edge [
    source 10
    target 13
  ]
  edge [
    source 10
    target 14
  ]
  edge [
    source 11
    target 12
  ]
  edge [
    source 11
    target 13
  ]
  edge [
    source 11
    target 14
  ]
  edge [
    source 12
    target 24
  ]
  edge [
    source 12
    target 13
  ]
  edge [
    source 13
    target 15
  ]
  edge [
    source 13
    target 16
  ]
  edge [
    source 13
    target 17
  ]
  edge [
    source 13
    target 22
  ]
  edge [
    source 15
    target 16
  ]
  edge [
    source 15
    target 17
  ]
  edge [
    source 15
    target 21
  ]
  edge [
    source 16
    target 17
  ]
  edge [
    source 17
    target 18
  ]
  edge [
    source 17
    target 19
  ]
  edge [
    source 17
    target 20
  ]
  edge [
    source 17
    target 21
  ]
  edge [
    source 17
    target 22
  ]
  edge [
    source 18
    target 21
  ]
  edge [
    source 19
    target 20
  ]
  edge [
    source 21
    target 22
  ]
  edge [
    source 22
    target 23
  ]
  edge [
    source 22
    target 24
  ]
  edge [
    source 23
    target 24
  ]
]
