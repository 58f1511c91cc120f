graph [
  node [
    id 0
    label "Raleigh"
    Longitude -78.64
    Latitude 35.77
  ]
  node [
    id 1
    label "Miami"
    Longitude -80.19
    Latitude 25.77
  ]
  node [
    id 2
    label "Atlanta"
    Longitude -84.39
    Latitude 33.75
  ]
  node [
    id 3
    label "Charlotte"
    Longitude -80.84
    Latitude 35.23
  ]
  node [
    id 4
    label "Buffalo"
    Longitude -78.88
    Latitude 42.89
  ]
  node [
    id 5
    label "Cleveland"
    Longitude -81.7
    Latitude 41.5
  ]
  node [
    id 6
    label "Chicago"
    Longitude -87.65
    Latitude 41.85
  ]
  node [
    id 7
    label "Toronto"
    Longitude -79.42
    Latitude 43.7
  ]
  node [
    id 8
    label "Montreal"
    Longitude -73.59
    Latitude 45.51
  ]
  node [
    id 9
    label "Albany"
    Longitude -73.76
    Latitude 42.65
  ]
  node [
    id 10
    label "Richmond"
    Longitude -77.46
    Latitude 37.55
  ]
  node [
    id 11
    label "New York"
    Longitude -74.01
    Latitude 40.71
  ]
  node [
    id 12
    label "Amsterdam"
    Longitude 4.89
    Latitude 52.37
  ]
  node [
    id 13
    label "Dusseldorf"
    Longitude 6.78
    Latitude 51.22
  ]
  node [
    id 14
    label "Southport"
    Longitude -3.01
    Latitude 53.65
  ]
  node [
    id 15
    label "Manchester"
    Longitude -2.24
    Latitude 53.48
  ]
  node [
    id 16
    label "Reading"
    Longitude -0.97
    Latitude 51.46
  ]
  node [
    id 17
    label "London"
    Longitude -0.13
    Latitude 51.51
  ]
  node [
    id 18
    label "Egham"
    Longitude -0.55
    Latitude 51.43
  ]
  node [
    id 19
    label "Biache"
    Longitude 2.95
    Latitude 50.31
  ]
  node [
    id 20
    label "Paris"
    Longitude 2.35
    Latitude 48.85
  ]
  node [
    id 21
    label "Brussels"
    Longitude 4.35
    Latitude 50.85
  ]
  node [
    id 22
    label "Portrush"
    Longitude -6.65
    Latitude 55.2
  ]
  node [
    id 23
    label "Baltimore"
    Longitude -76.61
    Latitude 39.29
  ]
  node [
    id 24
    label "Washington Dc"
    Longitude -77.04
    Latitude 38.9
  ]
  node [
    id 25
    label "Mannheim"
    Longitude 8.46
    Latitude 49.49
  ]
  node [
    id 26
    label "Frankfurt"
    Longitude 8.68
    Latitude 50.12
  ]
  node [
    id 27
    label "Newark"
    Longitude -74.17
    Latitude 40.74
  ]
  node [
    id 28
    label "Strasbourg"
    Longitude 7.74
    Latitude 48.58
  ]
  node [
    id 29
    label "Pittsburgh"
    Longitude -80.0
    Latitude 40.44
  ]
  node [
    id 30
    label "Ashburn"
    Longitude -77.49
    Latitude 39.04
  ]
  node [
    id 31
    label "McClean"
    Longitude -77.18
    Latitude 38.93
  ]
  node [
    id 32
    label "Philadelphia"
    Longitude -75.16
    Latitude 39.95
  ]
  node [
    id 33
    label "Dublin"
    Longitude -6.27
    Latitude 53.34
  ]
  node [
    id 34
    label "Belfast"
    Longitude -5.93
    Latitude 54.58
  ]
  node [
    id 35
    label "Sainte-Foy"
    Longitude -71.3
    Latitude 46.76
  ]
  node [
    id 36
    label "Boston"
    Longitude -71.06
    Latitude 42.36
  ]
  node [
    id 37
    label "Stamford"
    Longitude -73.54
    Latitude 41.05
  ]
  node [
    id 38
    label "White Plains"
    Longitude -73.76
    Latitude 41.03
  ]
  node [
    id 39
    label "Halifax"
    Longitude -63.57
    Latitude 44.65
  ]
  node [
    id 40
    label "Truro"
    Longitude -63.27
    Latitude 45.37
  ]
  node [
    id 41
    label "Moncton"
    Longitude -64.8
    Latitude 46.12
  ]
  node [
    id 42
    label "Edmundston"
    Longitude -68.33
    Latitude 47.37
  ]
  node [
    id 43
    label "Houston"
    Longitude -95.36
    Latitude 29.76
  ]
  node [
    id 44
    label "Tampa"
    Longitude -82.46
    Latitude 27.95
  ]
  node [
    id 45
    label "Seattle"
    Longitude -122.33
    Latitude 47.61
  ]
  node [
    id 46
    label "Denver"
    Longitude -104.98
    Latitude 39.74
  ]
  node [
    id 47
    label "San Francisco"
    Longitude -122.42
    Latitude 37.77
  ]
  node [
    id 48
    label "Los Angeles"
    Longitude -118.24
    Latitude 34.05
  ]
  node [
    id 49
    label "San Diego"
    Longitude -117.16
    Latitude 32.72
  ]
  node [
    id 50
    label "Las Vegas"
    Longitude -115.14
    Latitude 36.17
  ]
  node [
    id 51
    label "Phoenix"
    Longitude -112.07
    Latitude 33.45
  ]
  node [
    id 52
    label "Dallas"
    Longitude -96.81
    Latitude 32.78
  ]
  edge [
    source 0
    target 23
  ]
  edge [
    source 0
    target 3
  ]
  edge [
    source 0
    target 10
  ]
  edge [
    source 1
    target 3
  ]
  edge [
    source 1
    target 44
  ]
  edge [
    source 2
    target 23
  ]
  edge [
    source 2
    target 3
  ]
  edge [
    source 2
    target 43
  ]
  edge [
    source 2
    target 44
  ]
  edge [
    source 4
    target 9
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
    target 6
  ]
  edge [
    source 5
    target 29
  ]
  edge [
    source 6
    target 46
  ]
  edge [
    source 6
    target 11
  ]
  edge [
    source 6
    target 52
  ]
  edge [
    source 6
    target 29
  ]
  edge [
    source 7
    target 8
  ]
  edge [
    source 8
    target 9
  ]
  edge [
    source 8
    target 35
  ]
  edge [
    source 9
    target 11
  ]
  edge [
    source 9
    target 36
  ]
  edge [
    source 10
    target 24
  ]
  edge [
    source 11
    target 32
  ]
  edge [
    source 11
    target 36
  ]
  edge [
    source 11
    target 37
  ]
  edge [
    source 11
    target 48
  ]
  edge [
    source 11
    target 27
  ]
  edge [
    source 12
    target 13
  ]
  edge [
    source 12
    target 21
  ]
  edge [
    source 13
    target 26
  ]
  edge [
    source 14
    target 22
  ]
  edge [
    source 14
    target 15
  ]
  edge [
    source 14
    target 33
  ]
  edge [
    source 15
    target 16
  ]
  edge [
    source 16
    target 17
  ]
  edge [
    source 16
    target 18
  ]
  edge [
    source 17
    target 18
  ]
  edge [
    source 18
    target 19
  ]
  edge [
    source 19
    target 20
  ]
  edge [
    source 19
    target 21
  ]
  edge [
    source 20
    target 28
  ]
  edge [
    source 22
    target 39
  ]
  edge [
    source 22
    target 34
  ]
  edge [
    source 23
    target 31
  ]
  edge [
    source 23
    target 24
  ]
  edge [
    source 23
    target 29
  ]
  edge [
    source 24
    target 31
  ]
  edge [
    source 25
    target 26
  ]
  edge [
    source 25
    target 28
  ]
  edge [
    source 27
    target 38
  ]
  edge [
    source 27
    target 30
  ]
  edge [
    source 27
    target 32
  ]
  edge [
    source 29
    target 30
  ]
  edge [
    source 30
    target 31
  ]
  edge [
    source 30
    target 32
  ]
  edge [
    source 33
    target 39
  ]
  edge [
    source 33
    target 34
  ]
  edge [
    source 35
    target 42
  ]
  edge [
    source 36
    target 37
  ]
  edge [
    source 36
    target 39
  ]
  edge [
    source 37
    target 38
  ]
  edge [
    source 39
    target 40
  ]
  edge [
    source 40
    target 41
  ]
  edge [
    source 41
    target 42
  ]
  edge [
    source 43
    target 51
  ]
  edge [
    source 43
    target 52
  ]
  edge [
    source 45
    target 46
  ]
  edge [
    source 45
    target 47
  ]
  edge [
    source 46
    target 47
  ]
  edge [
    source 47
    target 48
  ]
  edge [
    source 48
    target 49
  ]
  edge [
    source 48
    target 50
  ]
  edge [
    source 48
    target 51
  ]
  edge [
    source 49
    target 51
  ]
]
