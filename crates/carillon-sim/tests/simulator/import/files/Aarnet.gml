graph [
  node [
    id 0
    label "Sydney1"
    Longitude 151.21
    Latitude -33.87
  ]
  node [
    id 1
    label "Brisbane2"
    Longitude 153.03
    Latitude -27.47
  ]
  node [
    id 2
    label "Canberra1"
    Longitude 149.13
    Latitude -35.28
  ]
  node [
    id 3
    label "Sydney2"
    Longitude 151.21
    Latitude -33.87
  ]
  node [
    id 4
    label "Townsville"
    Longitude 146.8
    Latitude -19.25
  ]
  node [
    id 5
    label "Cairns"
    Longitude 145.77
    Latitude -16.92
  ]
  node [
    id 6
    label "Brisbane1"
    Longitude 153.03
    Latitude -27.47
  ]
  node [
    id 7
    label "Rockhampton"
    Longitude 150.5
    Latitude -23.38
  ]
  node [
    id 8
    label "Armidale"
    Longitude 151.65
    Latitude -30.52
  ]
  node [
    id 9
    label "Hobart"
    Longitude 147.33
    Latitude -42.88
  ]
  node [
    id 10
    label "Canberra2"
    Longitude 149.13
    Latitude -35.28
  ]
  node [
    id 11
    label "Perth1"
    Longitude 115.83
    Latitude -31.93
  ]
  node [
    id 12
    label "Perth2"
    Longitude 115.83
    Latitude -31.93
  ]
  node [
    id 13
    label "Adelaide1"
    Longitude 138.6
    Latitude -34.93
  ]
  node [
    id 14
    label "Adelaide2"
    Longitude 138.6
    Latitude -34.93
  ]
  node [
    id 15
    label "Melbourne1"
    Longitude 144.96
    Latitude -37.81
  ]
  node [
    id 16
    label "Melbourne2"
    Longitude 144.96
    Latitude -37.81
  ]
  node [
    id 17
    label "Alice Springs"
    Longitude 133.88
    Latitude -23.7
  ]
  node [
    id 18
    label "Darwin"
    Longitude 130.84
    Latitude -12.46
  ]
  edge [
    source 0
    target 10
  ]
  edge [
    source 0
    target 3
  ]
  edge [
    source 0
    target 6
  ]
  edge [
    source 1
    target 3
  ]
  edge [
    source 1
    target 6
  ]
  edge [
    source 2
    target 10
  ]
  edge [
    source 2
    target 15
  ]
  edge [
    source 3
    target 8
  ]
  edge [
    source 3
    target 16
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
    source 6
    target 7
  ]
  edge [
    source 9
    target 16
  ]
  edge [
    source 9
    target 15
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
    source 12
    target 14
  ]
  edge [
    source 13
    target 18
  ]
  edge [
    source 13
    target 14
  ]
  edge [
    source 13
    target 15
  ]
  edge [
    source 14
    target 16
  ]
  edge [
    source 14
    target 17
  ]
  edge [
    source 15
    target 16
  ]
  edge [
    source 17
    target 18
  ]
]
