graph [
  node [
    id 0
    label "Seattle"
    Longitude -122.3
    Latitude 47.45
  ]
  node [
    id 1
    label "LosAngeles"
    Longitude -118.4
    Latitude 33.93
  ]
  node [
    id 2
    label "SanFrancisco"
    Longitude -122.38
    Latitude 37.62
  ]
  node [
    id 3
    label "LasVegas"
    Longitude -115.17
    Latitude 36.08
  ]
  node [
    id 4
    label "SaltLakeCity"
    Longitude -111.97
    Latitude 40.78
  ]
  node [
    id 5
    label "ElPaso"
    Longitude -106.4
    Latitude 31.8
  ]
  node [
    id 6
    label "Dallas"
    Longitude -96.85
    Latitude 32.85
  ]
  node [
    id 7
    label "Houston"
    Longitude -95.35
    Latitude 29.97
  ]
  node [
    id 8
    label "Tulsa"
    Longitude -95.9
    Latitude 36.2
  ]
  node [
    id 9
    label "Minneapolis"
    Longitude -93.38
    Latitude 45.07
  ]
  node [
    id 10
    label "KansasCity"
    Longitude -94.72
    Latitude 39.32
  ]
  node [
    id 11
    label "Denver"
    Longitude -104.87
    Latitude 39.75
  ]
  node [
    id 12
    label "Chicago"
    Longitude -87.9
    Latitude 41.98
  ]
  node [
    id 13
    label "Indianapolis"
    Longitude -86.27
    Latitude 39.65
  ]
  node [
    id 14
    label "Detroit"
    Longitude -83.02
    Latitude 42.42
  ]
  node [
    id 15
    label "StLouis"
    Longitude -90.37
    Latitude 38.75
  ]
  node [
    id 16
    label "Nashville"
    Longitude -86.68
    Latitude 36.12
  ]
  node [
    id 17
    label "Cleveland"
    Longitude -81.68
    Latitude 41.52
  ]
  node [
    id 18
    label "NewYork"
    Longitude -73.78
    Latitude 40.65
  ]
  node [
    id 19
    label "Albany"
    Longitude -73.8
    Latitude 42.75
  ]
  node [
    id 20
    label "Charlotte"
    Longitude -80.93
    Latitude 35.22
  ]
  node [
    id 21
    label "NewOrleans"
    Longitude -90.02
    Latitude 29.83
  ]
  node [
    id 22
    label "Boston"
    Longitude -71.03
    Latitude 42.37
  ]
  node [
    id 23
    label "Atlanta"
    Longitude -84.42
    Latitude 33.65
  ]
  node [
    id 24
    label "Miami"
    Longitude -80.28
    Latitude 25.82
  ]
  node [
    id 25
    label "WashingtonDC"
    Longitude -77.04
    Latitude 38.85
  ]
  edge [
    source 0
    target 2
  ]
  edge [
    source 0
    target 4
  ]
  edge [
    source 1
    target 2
  ]
  edge [
    source 1
    target 3
  ]
  edge [
    source 1
    target 5
  ]
  edge [
    source 2
    target 4
  ]
  edge [
    source 3
    target 4
  ]
  edge [
    source 3
    target 5
  ]
  edge [
    source 4
    target 11
  ]
  edge [
    source 5
    target 6
  ]
  edge [
    source 5
    target 7
  ]
  edge [
    source 6
    target 7
  ]
  edge [
    source 6
    target 8
  ]
  edge [
    source 6
    target 11
  ]
  edge [
    source 6
    target 16
  ]
  edge [
    source 7
    target 21
  ]
  edge [
    source 8
    target 10
  ]
  edge [
    source 8
    target 15
  ]
  edge [
    source 9
    target 10
  ]
  edge [
    source 9
    target 12
  ]
  edge [
    source 10
    target 11
  ]
  edge [
    source 10
    target 15
  ]
  edge [
    source 12
    target 13
  ]
  edge [
    source 12
    target 14
  ]
  edge [
    source 12
    target 15
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
    source 14
    target 17
  ]
  edge [
    source 16
    target 20
  ]
  edge [
    source 16
    target 23
  ]
  edge [
    source 17
    target 19
  ]
  edge [
    source 17
    target 25
  ]
  edge [
    source 18
    target 19
  ]
  edge [
    source 18
    target 22
  ]
  edge [
    source 18
    target 25
  ]
  edge [
    source 19
    target 22
  ]
  edge [
    source 20
    target 23
  ]
  edge [
    source 20
    target 25
  ]
  edge [
    source 21
    target 23
  ]
  edge [
    source 21
    target 24
  ]
  edge [
    source 23
    target 24
  ]
]
